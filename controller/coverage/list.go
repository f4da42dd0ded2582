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
	// PageSize is how many pods are asked for at a time.
	PageSize = 250
	// mostDecoded is the memory that one pod may take once it is decoded, in bytes. A usual
	// pod takes a hundredth of it.
	mostDecoded = 8 << 20
)

// List answers one list request for the pods of a namespace, or of all for "", as JSON.
type List func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error)

// Each calls visit with the pods of a namespace, or of all for "", one after the other. It
// returns how many were left out because they are too large to look at. An error of visit ends
// it.
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
		if rawjson.Exceeds(text, mostDecoded) {
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
		// The items of a list do not say what they are.
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
