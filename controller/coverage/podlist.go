package coverage

import (
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

const (
	// PageSize is the number of pods in a page of a list.
	PageSize = 250
	// maxDecoded bounds the memory of a decoded pod, in bytes. A usual pod needs a hundredth of
	// it.
	maxDecoded = 8 << 20
)

// List returns one page of the pods of a namespace, or of all namespaces for "", as JSON.
type List func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error)

// Each calls visit with the pods of a namespace, or of all namespaces for "", one after the
// other. It returns the number of pods that it skipped because they are too large. It stops at
// an error of visit.
func (list List) Each(ctx context.Context, namespace string, visit func(pod map[string]any) error) (tooLarge int, err error) {
	in := ""
	if namespace != "" {
		in = " in namespace " + namespace
	}
	var unlisted, visited error
	err = rawjson.Pages(func(next string) (io.ReadCloser, error) {
		var body io.ReadCloser
		body, unlisted = list(ctx, namespace, metav1.ListOptions{Limit: PageSize, Continue: next})
		return body, unlisted
	}, func(text []byte) error {
		if rawjson.Exceeds(text, maxDecoded) {
			tooLarge++
			return nil
		}
		decoded, err := rawjson.Decode(text)
		if err != nil {
			return err
		}
		pod, ok := decoded.(map[string]any)
		if !ok {
			return errors.New("an item is no object")
		}
		// The items of a list have no apiVersion and kind.
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		visited = visit(pod)
		return visited
	})
	switch {
	case err == nil:
		return tooLarge, nil
	case visited != nil:
		return tooLarge, visited
	case unlisted != nil:
		return tooLarge, fmt.Errorf("listing pods%s: %w", in, unlisted)
	}
	return tooLarge, fmt.Errorf("reading the list of pods%s: %w", in, err)
}
