package inspect

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// countsAtOnce is how many namespaces are asked for the number of their pods at a time.
const countsAtOnce = 16

// PodCounts counts the pods of each namespace. It reads one pod of a namespace, and the API server
// says how many more there are. With an error it returns the counts of the other namespaces.
func PodCounts(ctx context.Context, client metadata.Interface, names []string) (map[string]int, error) {
	counts := map[string]int{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(countsAtOnce)
	for _, name := range names {
		group.Go(func() error {
			page, err := client.Resource(PodsResource).Namespace(name).List(ctx, metav1.ListOptions{Limit: 1})
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
