package drift

import (
	"context"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// mirrorAnnotation is on pods that mirror a static pod of a node.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// Comparer compares pods with the pods that would be created now.
type Comparer struct {
	Pipeline     *injector.Pipeline
	Registration entries.Registration
}

// Compare compares a pod with the pod that would be created in its place now. It does not modify the pod.
// Errors are Pillion's own faults, or the context's.
func (c Comparer) Compare(ctx context.Context, pod map[string]any, ns templates.Namespace, set *templates.Set) (Comparison, error) {
	set = set.In(ns.Name)
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if !counts(pod, metadata, annotations) {
		return Comparison{}, nil
	}
	rec, _ := record.Parse(pod) // a record that cannot be read counts as none
	base := created(rec.Base(pod))
	call := c.Registration.Call(ns, annotations)
	s := Comparison{Counts: true, Called: call.Called(), Base: base, New: base}
	if !s.Called {
		switch call {
		case entries.CalledNowhere:
			s.Code = reason.NamespaceExcluded
		case entries.NotCalledByLabel:
			s.Code = reason.NamespaceDisabled
		default:
			s.Code = reason.NotRequested
		}
		s.Templates = Templates(rec, injector.Outcome{Allowed: true, Code: s.Code}, set)
		return s, nil
	}
	out, err := c.Pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: base, Namespace: ns, Templates: set})
	if err != nil {
		return Comparison{}, fmt.Errorf("comparing a pod of namespace %s with a new one: %w", ns.Name, err)
	}
	s.Code, s.Message, s.New = out.Code, out.Message, out.Pod
	s.Templates = Templates(rec, out, set)
	if !out.Allowed {
		return s, nil
	}
	now, err := record.Parse(out.Pod)
	if err != nil {
		return Comparison{}, fmt.Errorf("reading the record of a new pod: %w", err)
	}
	for _, path := range differences(rec, now) {
		place := Place{Path: path}
		if template := out.Writer(path); template != "" {
			place.Templates = []string{template}
		}
		s.Places = append(s.Places, place)
	}
	s.explain()
	return s, nil
}

// counts reports whether a pod can be compared.
func counts(pod, metadata, annotations map[string]any) bool {
	status, _ := pod["status"].(map[string]any)
	_, mirrors := annotations[mirrorAnnotation]
	phase, _ := status["phase"].(string)
	return !mirrors && metadata["deletionTimestamp"] == nil && phase != "Succeeded" && phase != "Failed"
}

// explain sets the state Outdated at each place that differs: for the templates of which the pod has another
// version, or for all templates at the place if their versions agree.
func (s *Comparison) explain() {
	outdated := map[string]bool{}
	for _, p := range s.Places {
		var changed, same []string
		explained := false
		for _, t := range s.Templates {
			switch {
			case len(p.Templates) > 0 && !slices.Contains(p.Templates, t.Name), t.State == NotAsked:
			case t.State != Current:
				explained = true
			case t.Has != t.Gets:
				changed = append(changed, t.Name)
			default:
				same = append(same, t.Name)
			}
		}
		if len(changed) == 0 && !explained {
			changed = same
		}
		for _, name := range changed {
			outdated[name] = true
		}
	}
	for i, t := range s.Templates {
		if outdated[t.Name] {
			s.Templates[i].State = Outdated
		}
	}
}

// differences returns the places at which two records differ, in order. It ignores originals, which belong to
// the base pod, and values that only the API server knows.
func differences(a, b record.Record) []*podschema.Path {
	var texts []string
	for path, e := range a.Set {
		if other, ok := b.Set[path]; ok && other.Sum != e.Sum || !ok && writes(e) {
			texts = append(texts, path)
		}
	}
	for path, e := range b.Set {
		if _, ok := a.Set[path]; !ok && writes(e) {
			texts = append(texts, path)
		}
	}
	slices.Sort(texts)
	var all []*podschema.Path
	for _, text := range texts {
		if path, err := podschema.ParsePath(text); err == nil {
			all = append(all, path)
		}
	}
	return all
}

// writes reports whether an entry is a write or a removal by Pillion.
func writes(e record.Entry) bool {
	return e.Sum != "" || len(e.RemovedItems) > 0 || e.Had && !e.Created
}
