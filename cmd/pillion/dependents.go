package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/namespaces"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// countsAtOnce is how many namespaces are asked for the number of their pods at a time.
	countsAtOnce = 16
	// countTime bounds the counting for the answer to who applies a template.
	countTime = time.Second
)

// podCounts returns how many pods namespaces have, also where there is an error: of those that it
// could ask. It reads one pod of each, and the API server says how many more there are.
func podCounts(ctx context.Context, client metadata.Interface, names []string) (map[string]int, error) {
	counts := map[string]int{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(countsAtOnce)
	for _, name := range names {
		group.Go(func() error {
			page, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(name).List(ctx, metav1.ListOptions{Limit: 1})
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

// counter returns podCounts for a cluster. Whoever waits for it is not to wait for other reads.
func counter(config *rest.Config) (func(context.Context, []string) (map[string]int, error), error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the numbers of pods: %w", err)
	}
	return func(ctx context.Context, names []string) (map[string]int, error) {
		return podCounts(ctx, client, names)
	}, nil
}

// dependence says which namespaces come to depend on Pillion by a change of templates.
type dependence struct {
	labels kept.Labels
	prefix string
	// namespaces are those that are known; count returns the numbers of their pods. Nil: they may
	// not be read.
	namespaces func() iter.Seq[kept.Namespace]
	count      func(context.Context, []string) (map[string]int, error)
}

// newDependence returns what the server says of the templates that somebody applies.
func newDependence(c serveConfig, config *rest.Config, ns *namespaces.Informer, log *slog.Logger) (dependence, error) {
	d := dependence{labels: keptLabels(c, c.enforcementConfig.once), prefix: c.AnnotationPrefix, namespaces: namespaces.Labelled{Informer: ns}.All}
	if !c.ReadWorkloads && c.CountEvery == 0 {
		return d, nil // it has not the right
	}
	count, err := counter(config)
	d.count = func(ctx context.Context, names []string) (map[string]int, error) {
		counts, err := count(ctx, names)
		if err != nil {
			log.Debug("not all pods of the namespaces that a template selects could be counted", "error", err)
		}
		return counts, err
	}
	return d, err
}

// of returns a sentence for each value that the label gets in some namespaces.
func (d dependence) of(ctx context.Context, before, after *templates.Set) []string {
	newly := d.labels.Newly(d.prefix, before, after, d.namespaces())
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
	return []string{fmt.Sprintf("spec.match: these come to depend on Pillion, by %s=%s: %s (%s). While it does not answer, new pods there are %s",
		templates.InjectionLabel(d.prefix), value, show.Some(names, 5), counted, then)}
}
