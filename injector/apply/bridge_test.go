package apply

import (
	"context"
	"strings"

	plan "github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

type (
	Fragment      = plan.Fragment
	ConflictError = plan.ConflictError
	FragmentError = plan.FragmentError
	PodError      = plan.PodError
)

const (
	Deny      = plan.Deny
	KeepPod   = plan.KeepPod
	Overwrite = plan.Overwrite
)

var ErrPositions = plan.ErrPositions

// injected is the result of planning and applying.
type injected struct {
	Pod        map[string]any
	Operations []patch.Operation
	Warnings   []string
	Templates  []string
}

// injectWith plans for the base pod that the record gives, and applies.
func injectWith(pod map[string]any, rec record.Record, frags []Fragment) (injected, error) {
	p, err := plan.Merge(context.Background(), rec.Base(pod), frags, statusKey)
	if err != nil {
		return injected{}, err
	}
	r, err := Apply(context.Background(), pod, rec, p, statusKey)
	return injected{Pod: r.Pod, Operations: r.Operations, Warnings: append(p.Warnings, r.Warnings...), Templates: p.Templates()}, err
}

func encode(v any) []byte { return podschema.Encode(v) }

func objectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

// covers reports whether the plugin DefaultTolerationSeconds would leave out its
// default toleration because of this one.
func covers(toleration map[string]any, v any) bool {
	t, _ := v.(map[string]any)
	key, _ := toleration["key"].(string)
	effect, _ := toleration["effect"].(string)
	return (key == "" || key == t["key"]) && (effect == "" || effect == "NoExecute")
}

func pullPolicy(image any) any {
	name, _ := image.(string)
	name, _, digest := strings.Cut(name, "@")
	if !digest && (!strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") || strings.HasSuffix(name, ":latest")) {
		return "Always"
	}
	return "IfNotPresent"
}
