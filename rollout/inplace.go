package rollout

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/mark"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Change brings a running pod to what it would get now without replacing it.
type Change struct {
	// Sidecars are those that the kubelet restarts with another image. There are none if
	// only the record changes.
	Sidecars []Sidecar
	// Operations change the images of Sidecars, the record and the labels beside it, and
	// nothing else.
	Operations []patch.Operation
}

// Sidecar is a native sidecar that gets another image.
type Sidecar struct{ Name, From, To string }

// String says which image becomes which.
func (s Sidecar) String() string { return fmt.Sprintf("%s: %s becomes %s", s.Name, s.From, s.To) }

// InPlace computes what brings the pod of a request to what it would get now, which now
// says. The API lets the images of a running pod's native sidecars change, its labels and its
// annotations. If anything else would be different in a new pod, there is no such change,
// and why says what.
//
// The record of the pod after the change is that of the new pod, byte for byte. So nothing
// stays behind that a template wanted once, and no value that somebody changed since counts
// as Pillion's.
func InPlace(ctx context.Context, p *injector.Pipeline, statusKey string, r injector.Request, now drift.Comparison) (change Change, why string, err error) {
	rec, err := record.Parse(r.Pod, statusKey)
	switch {
	case err != nil:
		return Change{}, fmt.Sprintf("its record cannot be read: %v", err), nil
	case now.Message != "":
		return Change{}, now.Message, nil
	case rec.Empty():
		return Change{}, "it has no sidecar yet, and a running pod takes no other containers", nil
	}
	r.Pod = asCreated(r.Pod, rec, now.Base)
	out, err := p.Inject(ctx, r)
	if err != nil {
		return Change{}, "", err
	}
	if !out.Allowed {
		return Change{}, out.Message, nil
	}
	for _, op := range out.Operations {
		if why := change.add(r.Pod, rec, now.New, statusKey, op); why != "" {
			return Change{}, why, nil
		}
	}
	got, err := record.Parse(out.Pod, statusKey)
	if err != nil {
		return Change{}, "", fmt.Errorf("reading the record that was just written: %w", err)
	}
	want, err := record.Parse(now.New, statusKey)
	if err != nil {
		return Change{}, "", fmt.Errorf("reading the record of a new pod: %w", err)
	}
	if why := notTheSame(got, want); why != "" {
		return Change{}, why, nil
	}
	change.Operations = out.Operations
	return change, "", nil
}

// asCreated returns a running pod without what its new base pod lacks because the cluster
// made it of the pod since its creation. Templates see the same of both, and paths that lead
// into one lead into the other.
func asCreated(pod map[string]any, rec record.Record, base map[string]any) map[string]any {
	pod = maps.Clone(pod)
	delete(pod, "status")
	was := rec.Base(pod)
	for _, section := range []string{"metadata", "spec"} {
		fields, _ := pod[section].(map[string]any)
		before, _ := was[section].(map[string]any)
		after, _ := base[section].(map[string]any)
		fields = without(fields, before, after)
		for _, keys := range []string{"labels", "annotations"} {
			if object, ok := fields[keys].(map[string]any); ok && section == "metadata" {
				b, _ := before[keys].(map[string]any)
				a, _ := after[keys].(map[string]any)
				fields[keys] = without(object, b, a)
			}
		}
		pod[section] = fields
	}
	return pod
}

// without returns a copy of an object without the fields that are in before and not in
// after. Labels and annotations are compared one by one.
func without(object, before, after map[string]any) map[string]any {
	object = maps.Clone(object)
	for name := range before {
		if _, ok := after[name]; !ok && name != "labels" && name != "annotations" {
			delete(object, name)
		}
	}
	return object
}

// isMark reports whether a label is one that stands beside the record.
func isMark(statusKey, label string) bool {
	_, is := mark.LabelsOf(statusKey).Has(label)
	return is
}

// add takes an operation into the change. Otherwise it says why the operation cannot be
// done to a running pod, or must not be.
func (c *Change) add(pod map[string]any, rec record.Record, fresh map[string]any, statusKey string, op patch.Operation) (why string) {
	path := segments(op.Pointer())
	if len(path) == 3 && path[0] == "metadata" && (path[1] == "annotations" && path[2] == statusKey || path[1] == "labels" && isMark(statusKey, path[2])) {
		return ""
	}
	container, field := containerAt(pod, path)
	name, _ := container["name"].(string)
	switch {
	case container == nil:
		return "it would change in " + strings.Join(path, ".")
	case field == "":
		return "its list of containers would change"
	case path[1] != "initContainers" || container["restartPolicy"] != "Always":
		return fmt.Sprintf("its container %s would change in %s, and is no native sidecar", name, field)
	case field != "image" || len(path) != 4 || op.Op() != patch.Replace:
		return fmt.Sprintf("its sidecar %s would change in %s", name, field)
	case !added(rec, name):
		return fmt.Sprintf("its container %s is not Pillion's", name)
	}
	from, _ := container["image"].(string)
	to, _ := op.Value().(string)
	if to == "" {
		return fmt.Sprintf("its sidecar %s would have no image", name)
	}
	if policy := containerNamed(fresh, "initContainers", name)["imagePullPolicy"]; policy == nil && alwaysPulled(from) != alwaysPulled(to) {
		return fmt.Sprintf("its sidecar %s would change in imagePullPolicy, whose default comes from the image's tag (%s becomes %s)", name, from, to)
	}
	c.Sidecars = append(c.Sidecars, Sidecar{Name: name, From: from, To: to})
	return ""
}

// added reports whether the record says that Pillion added the init container as a whole.
func added(rec record.Record, name string) bool {
	place := rec.Root.Child("spec").Child("initContainers").Child("name=" + name)
	return place != nil && place.Added
}

// alwaysPulled reports whether the API server's default of imagePullPolicy is Always.
func alwaysPulled(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return !tagged || tag == "latest"
}

// containerAt returns the container of a pod that a path leads into, and the field of it;
// nil for a path into no container, and no field for the list or the container as a whole.
func containerAt(pod map[string]any, path []string) (container map[string]any, field string) {
	if len(path) < 2 || path[0] != "spec" || !slices.Contains([]string{"initContainers", "containers", "ephemeralContainers"}, path[1]) {
		return nil, ""
	}
	if len(path) < 4 {
		return map[string]any{}, ""
	}
	spec, _ := pod["spec"].(map[string]any)
	list, _ := spec[path[1]].([]any)
	index, err := strconv.Atoi(path[2])
	if err != nil || index < 0 || index >= len(list) {
		return nil, ""
	}
	container, _ = list[index].(map[string]any)
	return container, path[3]
}

// containerNamed returns a container of a pod by its list and its name.
func containerNamed(pod map[string]any, list, name string) map[string]any {
	spec, _ := pod["spec"].(map[string]any)
	items, _ := spec[list].([]any)
	for _, item := range items {
		if c, ok := item.(map[string]any); ok && c["name"] == name {
			return c
		}
	}
	return nil
}

// segments returns the unescaped segments of a JSON pointer.
func segments(pointer string) []string {
	path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, s := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return path
}

// notTheSame says in what the record of a changed pod differs from that of a new one, ""
// if they are the same.
func notTheSame(got, want record.Record) string {
	for _, name := range slices.Sorted(maps.Keys(got.Templates)) {
		if want.Templates[name] == "" {
			return fmt.Sprintf("it carries the template %s, which a new pod does not get", name)
		}
	}
	if got.Encode() == want.Encode() {
		return ""
	}
	path, _ := difference(got.Root, want.Root, nil)
	return fmt.Sprintf("%s is not as in a new pod: somebody changed it since, or the template no longer wants it", podschema.Readable(path))
}

// difference returns the keyed path to the first place of which two records say different
// things, and reports whether there is one.
func difference(a, b *record.Place, path []string) ([]string, bool) {
	if a == nil || b == nil || a.Made != b.Made || a.Added != b.Added || a.Wrote != b.Wrote || !reflect.DeepEqual(a.Was, b.Was) || !reflect.DeepEqual(a.Removed, b.Removed) {
		return path, true
	}
	all := slices.Concat(slices.Collect(maps.Keys(a.In)), slices.Collect(maps.Keys(b.In)))
	slices.Sort(all)
	for _, segment := range slices.Compact(all) {
		x, y := a.Child(segment), b.Child(segment)
		if x.Empty() && y.Empty() {
			continue
		}
		if p, found := difference(x, y, append(path[:len(path):len(path)], segment)); found {
			return p, true
		}
	}
	return nil, false
}
