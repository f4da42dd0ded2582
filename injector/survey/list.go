package survey

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	options := metav1.ListOptions{Limit: PageSize}
	for {
		body, err := list(ctx, namespace, options)
		if next := resume(err); next != "" {
			// The list took longer than the API server keeps old versions. It goes on with the
			// pods that come next by name, as they are now.
			options.Continue = next
			continue
		}
		if err != nil {
			return tooLarge, fmt.Errorf("listing pods%s: %w", in(namespace), err)
		}
		left, next, err := page(body, visit)
		_ = body.Close()
		tooLarge += left
		var own visitError
		switch {
		case errors.As(err, &own):
			return tooLarge, own.error
		case err != nil:
			return tooLarge, fmt.Errorf("reading the list of pods%s: %w", in(namespace), err)
		case next == "":
			return tooLarge, nil
		}
		options.Continue = next
	}
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// resume returns the token with which a list goes on that took too long, "" for every other
// error.
func resume(err error) string {
	var answer apierrors.APIStatus
	if err == nil || !apierrors.IsResourceExpired(err) || !errors.As(err, &answer) {
		return ""
	}
	return answer.Status().Continue
}

// visitError is an error of the function that Each calls.
type visitError struct{ error }

// page reads one page, pod by pod. It returns the token of the next one.
func page(r io.Reader, visit func(pod map[string]any) error) (tooLarge int, next string, err error) {
	err = rawjson.List(r, func(text []byte) error {
		decoded, err := rawjson.Decode(text, nil)
		metadata, _ := decoded.(map[string]any)
		next, _ = metadata["continue"].(string)
		return err
	}, func(text []byte) error {
		left, err := item(text, visit)
		tooLarge += left
		return err
	})
	return tooLarge, next, err
}

// item visits one pod.
func item(text []byte, visit func(pod map[string]any) error) (tooLarge int, err error) {
	if rawjson.DecodedSize(text) > mostDecoded {
		return 1, nil
	}
	decoded, err := rawjson.Decode(text, nil)
	if err != nil {
		return 0, err
	}
	pod, ok := decoded.(map[string]any)
	if !ok {
		return 0, errors.New("an item is no object")
	}
	// The items of a list do not say what they are.
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	if err := visit(pod); err != nil {
		return 0, visitError{err}
	}
	return 0, nil
}
