package main

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// countTime bounds the counting for the answer to who applies a template.
const countTime = time.Second

// dependence says which namespaces come to depend on Pillion by a change of templates.
type dependence struct {
	rules labels.Rules
	// enforcement is what holds once Pillion has proven that it works.
	enforcement proof.Enforcement
	// namespaces are those that are known; count returns the numbers of their pods. Nil: they may
	// not be read.
	namespaces func() iter.Seq[labels.Namespace]
	count      func(context.Context, []string) (map[string]int, error)
}

// dependence returns what the server says of the templates that somebody applies.
func (r *replica) dependence() dependence {
	c, log := r.c, r.logger("templates")
	d := dependence{rules: c.Labels(), enforcement: proof.Enforcement{Enforce: c.proves()}, namespaces: r.namespaces.AllLabelled}
	if !c.ReadWorkloads && c.CountEvery == 0 {
		return d // it has not the right
	}
	d.count = func(ctx context.Context, names []string) (map[string]int, error) {
		counts, err := podCounts(ctx, r.unlimited, names)
		if err != nil {
			log.Debug("not all pods of the namespaces that a template selects could be counted", "error", err)
		}
		return counts, err
	}
	return d
}

// of returns a sentence for each value that the label gets in some namespaces.
func (d dependence) of(ctx context.Context, before, after *templates.Set) []string {
	newly := d.rules.Newly(d.enforcement, before, after, d.namespaces())
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

// countsAtOnce is how many namespaces are asked for the number of their pods at a time.
const countsAtOnce = 16

// podCounts counts the pods of each namespace. It reads one pod of a namespace, and the API server
// says how many more there are. With an error it returns the counts of the other namespaces.
func podCounts(ctx context.Context, client metadata.Interface, names []string) (map[string]int, error) {
	counts := map[string]int{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(countsAtOnce)
	for _, name := range names {
		group.Go(func() error {
			page, err := client.Resource(inspect.PodsResource).Namespace(name).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return fmt.Errorf("counting the pods of namespace %s: %w", name, err)
			}
			n := len(page.Items)
			if more := page.RemainingItemCount; more != nil {
				n += int(*more)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[name] = n
			return nil
		})
	}
	return counts, group.Wait()
}
