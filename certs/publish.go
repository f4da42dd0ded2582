package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bundles supplies the CA bundle to publish.
type bundles interface {
	// bundle returns the bundle that follows from this replica's caches. It returns nil if
	// there is nothing to publish.
	bundle() []byte

	// newestBundle asks the API server and returns the bundle by its newest state. It
	// returns nil if this replica has to write that state first.
	newestBundle(ctx context.Context) ([]byte, error)
}

// publisher writes the CA bundle into the caBundle of every entry that calls the
// Service, and into nothing else. Only one goroutine uses it.
type publisher struct {
	configurations []*configuration
	permissions    *permissions
	problems       *problems
	log            *slog.Logger
	now            func() time.Time
}

// publish restores the bundle in every configuration that does not have it. Problems
// are recorded under the configuration.
//
// A replica that has not yet seen the newest CA must not undo the bundle of a replica
// that has. So publish asks for the newest bundle before it writes, and the patch
// applies only to the version of the configuration that was read before the question.
// A bundle can therefore only be replaced by an equally new or newer bundle.
func (p *publisher) publish(ctx context.Context, b bundles) {
	want := b.bundle()
	for _, c := range p.configurations {
		var err error
		if r, ok := c.get(); ok && want != nil && p.nextText(c, r, want) != nil {
			err = p.publishIn(ctx, c, r, b)
		}
		p.problems.record(c.String(), failedPublish, err)
	}
}

// rewriteAfter is how long the first text of a bundle stands before it is written again.
const rewriteAfter = 2 * checkInterval

// publishIn writes the newest bundle into one configuration. r is the version of the
// configuration that this replica has seen.
//
// The bundle is written twice: first with an empty line at its end, and without this line after
// [rewriteAfter]. An API server keeps the entries of a configuration in a cache, which a change of
// the configuration empties. A request that reads the version before at that moment fills the cache
// with it again, until the next change: for ever (k8s.io/apiserver/pkg/admission/configuration since
// Kubernetes 1.28; it happened at 2 of 12,000 changes). The second write is the next change.
func (p *publisher) publishIn(ctx context.Context, c *configuration, r *registration, b bundles) error {
	want, err := b.newestBundle(ctx)
	if err != nil {
		return fmt.Errorf("before publishing the CA bundle: %w", err)
	}
	if want == nil {
		return nil
	}
	text := p.nextText(c, r, want)
	if text == nil {
		return nil
	}
	entries := r.outdated(want)
	patch, err := bundlePatch(r, entries, text)
	if err != nil {
		return err
	}
	err = c.patch(ctx, patch)
	if overtaken(err) || apierrors.IsInvalid(err) && c.refused.age(r.resourceVersion, p.now()) <= 2*checkInterval {
		p.log.Debug("the bundle was not published: the webhook configuration has changed meanwhile", "configuration", c.String(), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publishing the CA bundle: %w", p.permissions.explain(err, "patch", c.Kind.resource(), c.Name))
	}
	p.log.Info("published the CA bundle", "configuration", c.String(), "entries", len(entries))
	return nil
}

// nextText returns the text of the bundle to write now: the first one, or the second one if all entries that need
// it have had the first one for [rewriteAfter]. It returns nil if there is nothing to write yet.
func (p *publisher) nextText(c *configuration, r *registration, want []byte) []byte {
	entries := r.outdated(want)
	if len(entries) == 0 {
		return nil
	}
	first := append(slices.Clone(want), '\n')
	switch {
	case slices.ContainsFunc(entries, func(e entry) bool { return !bytes.Equal(e.caBundle, first) }):
		return first
	case c.rewrite.age(r.resourceVersion, p.now()) < rewriteAfter:
		return nil
	}
	return want
}

// jsonPatchOperation is one operation of RFC 6902.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch returns the JSON patch that sets the caBundle of the entries and changes
// nothing else. (An update with the typed object would drop fields that this build
// does not know.) The patch applies only to the version of the configuration in r.
func bundlePatch(r *registration, entries []entry, want []byte) ([]byte, error) {
	patch := []jsonPatchOperation{{Op: "test", Path: "/metadata/resourceVersion", Value: r.resourceVersion}}
	for _, e := range entries {
		// "add" sets a field whether or not the field exists.
		patch = append(patch, jsonPatchOperation{Op: "add", Path: "/webhooks/" + strconv.Itoa(e.index) + "/clientConfig/caBundle", Value: want})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of %s: %w", r, err)
	}
	return data, nil
}

// overtaken reports whether a write failed because another write came first.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// versionAge measures for how long one version of an object has been the newest.
type versionAge struct {
	version string
	since   time.Time
}

// age returns for how long age has been called with this version and no other.
func (a *versionAge) age(version string, now time.Time) time.Duration {
	if a.version != version {
		*a = versionAge{version, now}
	}
	return now.Sub(a.since)
}
