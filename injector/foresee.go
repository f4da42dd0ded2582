package injector

import (
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
)

// Asked returns what a namespace's annotation means by itself, for pods that say nothing:
// refusals and warnings, as far as they need no pod. It injects nothing.
func (p *Pipeline) Asked(ns templates.Namespace, set *templates.Set) Outcome {
	r := Request{Operation: "CREATE", Pod: map[string]any{}, Namespace: ns, Templates: set}.inNamespace()
	return p.newInjection(r, p.choose(r, r.Pod, nil, nil), false).conclude()
}

// Base returns a pod as its author wrote it, without what its record says is Pillion's. A
// record that cannot be read hides nothing. The pod is not modified.
func (p *Pipeline) Base(pod map[string]any) map[string]any {
	rec, err := record.Parse(pod, p.statusKey)
	if err != nil {
		return pod
	}
	return rec.Base(pod)
}
