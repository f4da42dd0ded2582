package ground

import (
	"context"
	"fmt"
	"time"
)

// followPause is how long Follow rests between two looks.
const followPause = time.Second

// Follow keeps the Pillion of namespace as the chart's objects want it, until ctx ends:
// what `helm upgrade` changes takes effect. An error is written to the ground's output when it is
// another one than the last.
func (g *ControlPlane) Follow(ctx context.Context, namespace string) {
	var last string
	for ctx.Err() == nil {
		text := ""
		if err := g.Rollout(ctx, namespace); err != nil {
			text = err.Error()
		}
		if text != last && text != "" && ctx.Err() == nil {
			fmt.Fprintf(g.out, "following Pillion in %s: %s\n", namespace, text)
		}
		last = text
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
}
