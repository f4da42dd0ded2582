package measure

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// Follow hands every event of the named object to see, or of all objects without a name,
// until ctx ends.
func Follow(ctx context.Context, name string, start func(context.Context, metav1.ListOptions) (watch.Interface, error), see func(watch.Event)) {
	var options metav1.ListOptions
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	for ctx.Err() == nil {
		w, err := start(ctx, options)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for e := range w.ResultChan() {
			see(e)
		}
		w.Stop()
	}
}
