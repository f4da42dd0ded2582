package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// countTime bounds the counting for the answer to who applies a template.
const countTime = time.Second

// dependence says which namespaces come to depend on Pillion by a change of templates.
type dependence struct {
	rules labels.Rules
	// proven: namespaces may become enforced.
	proven bool
	// namespaces are those that are known; count returns the numbers of their pods. Nil: they may
	// not be read.
	namespaces func() iter.Seq[labels.Namespace]
	count      func(context.Context, []string) (map[string]int, error)
}

// dependence returns what the server says of the templates that somebody applies.
func (r *replica) dependence() dependence {
	c, log := r.c, r.logger("templates")
	d := dependence{rules: c.Labels(), proven: c.proves(), namespaces: r.namespaces.AllLabelled}
	if !c.ReadWorkloads && c.CountEvery == 0 {
		return d // it has not the right
	}
	d.count = func(ctx context.Context, names []string) (map[string]int, error) {
		counts, err := inspect.PodCounts(ctx, r.unlimited, names)
		if err != nil {
			log.Debug("not all pods of the namespaces that a template selects could be counted", "error", err)
		}
		return counts, err
	}
	return d
}

// of returns a sentence for each value that the label gets in some namespaces.
func (d dependence) of(ctx context.Context, before, after *templates.Set) []string {
	newly := d.rules.Newly(d.proven, before, after, d.namespaces())
	return append(d.sentence(ctx, templates.InjectionEnforced, newly.Enforced, "refused"),
		d.sentence(ctx, templates.InjectionEnabled, newly.Enabled, "created without their sidecars")...)
}

func (d dependence) sentence(ctx context.Context, value string, names []string, then string) []string {
	if len(names) == 0 {
		return nil
	}
	counted := fmt.Sprintf("namespaces: %d", len(names))
	if d.count != nil {
		ctx, cancel := context.WithTimeout(ctx, countTime)
		defer cancel()
		counts, err := d.count(ctx, names)
		n, least := 0, ""
		for _, pods := range counts {
			n += pods
		}
		if err != nil {
			least = "at least "
		}
		if err == nil || n > 0 {
			counted += fmt.Sprintf(", pods: %s%d", least, n)
		}
	}
	return []string{fmt.Sprintf("spec.match: more namespaces will depend on Pillion, by the label %s=%s: %s (%s). While Pillion does not answer, new pods there are %s",
		templates.InjectionLabel(d.rules.Prefix), value, show.Some(names, 5), counted, then)}
}
