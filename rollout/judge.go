package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
)

// Judge says how pods stand to the templates in force.
type Judge struct {
	Comparer  drift.Comparer
	Templates *templates.Set
	// Template limits what counts to one template. All count if it is empty.
	Template string
}

// verdict is how one pod stands.
type verdict struct {
	now drift.Comparison
	// behind and refused are sentences: what of a new pod the pod lacks, and why there
	// would be no new pod.
	behind, refused string
	// current: the pod has a template that counts as a new pod would.
	current bool
}

func (j Judge) statusKey() string {
	return templates.StatusKey(j.Comparer.Registration.Prefix)
}

// judge compares a pod with the pod that would be created in its place.
func (j Judge) judge(ctx context.Context, pod map[string]any, ns templates.Namespace) (verdict, error) {
	s, err := j.Comparer.Compare(ctx, pod, ns, j.Templates)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{now: s}
	var parts []string
	for _, state := range []drift.State{drift.Missing, drift.Outdated} {
		if names := j.named(s, state); len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	v.behind = strings.Join(parts, "; ")
	v.current = v.behind == "" && len(j.named(s, drift.Current)) > 0
	if s.Message != "" && (j.Template == "" || len(j.named(s, drift.Refused)) > 0) {
		v.refused = s.Message
	}
	return v, nil
}

// named returns the templates in a state that count.
func (j Judge) named(s drift.Comparison, in drift.State) []string {
	return slices.DeleteFunc(drift.Named(s.Templates, in), func(name string) bool { return j.Template != "" && name != j.Template })
}

// anew returns a pod to create by dry run: the base pod of an existing one.
func anew(v verdict) map[string]any {
	pod := maps.Clone(v.now.Base)
	metadata := maps.Clone(pod["metadata"].(map[string]any))
	pod["metadata"] = metadata
	if metadata["name"] != nil {
		metadata["generateName"] = fmt.Sprint(metadata["name"], "-")
		delete(metadata, "name")
	}
	if refs, ok := metadata["ownerReferences"].([]any); ok {
		refs = slices.Clone(refs)
		for i, ref := range refs {
			if r, ok := ref.(map[string]any); ok {
				r = maps.Clone(r)
				delete(r, "blockOwnerDeletion") // who says that needs a right on the owner
				refs[i] = r
			}
		}
		metadata["ownerReferences"] = refs
	}
	return pod
}

// lacks says what a pod that the API server made by dry run lacks of what it should have
// got, "" for nothing.
func (j Judge) lacks(v verdict, created map[string]any) string {
	rec, err := record.Parse(created, j.statusKey())
	if err != nil {
		return fmt.Sprintf("its record cannot be read: %v", err)
	}
	var wrong []string
	for _, t := range v.now.Templates {
		switch got := rec.Hash(t.Name); {
		case t.Gets == "" || got == t.Gets:
		case got == "":
			wrong = append(wrong, fmt.Sprintf("it comes without %s", t.Name))
		default:
			wrong = append(wrong, fmt.Sprintf("it comes with version %s of %s, where %s is in force", got, t.Name, t.Gets))
		}
	}
	return strings.Join(wrong, "; ")
}
