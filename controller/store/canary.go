package store

import "github.com/pillion-dev/pillion/templates"

// judged completes a verdict on a canary that compiles alone: the stable template decides whether it can
// be used. Hash is then what pods carry. Share is nil for a template that is no canary.
func judged(set *templates.Set, name string, hash, reason, message *string) (share *int32) {
	c, ok := set.Canary(name)
	if !ok || c.Template == nil || *reason != Compiled {
		return nil
	}
	percent := int32(c.Percent()) //nolint:gosec // 0 to 100
	if *hash = set.HashOf(c.Entry); c.Unusable != nil {
		*reason, *message = CanaryUnusable, c.Unusable.Error()
	}
	return &percent
}
