package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Change brings a running pod up to date without replacing it.
type Change struct {
	// Sidecars are the sidecars that the kubelet restarts with another image. The list is
	// empty if only the record changes.
	Sidecars []Sidecar
	// Operations change the images of Sidecars, the record and the labels beside it, and
	// nothing else.
	Operations []patch.Operation
}

// Sidecar is a native sidecar that gets another image.
type Sidecar struct{ Name, From, To string }

// String formats both images.
func (s Sidecar) String() string { return fmt.Sprintf("%s: %s becomes %s", s.Name, s.From, s.To) }

// InPlace computes the change that brings a pod up to date. now is its comparison with a new pod. The
// API permits changes of native sidecars' images, of labels and of annotations in a running pod. If
// the new pod has any other difference, InPlace returns that difference in why.
//
// The record of the pod after the change equals the new pod's, byte for byte.
func InPlace(pod map[string]any, now drift.Comparison) (change Change, why string) {
	rec, err := record.Parse(pod)
	switch {
	case err != nil:
		return Change{}, fmt.Sprintf("its record cannot be read: %v", err)
	case now.Message != "":
		return Change{}, now.Message
	case rec.Empty():
		return Change{}, "it has no sidecar yet, and a running pod takes no other containers"
	}
	if dropped := drift.Named(now.Templates, drift.Dropped); len(dropped) > 0 {
		return Change{}, fmt.Sprintf("it carries the template %s, which a new pod does not get", dropped[0])
	}
	for _, place := range now.Places {
		if why := change.add(pod, rec, now.New, place.Path.Segments()); why != "" {
			return Change{}, why
		}
	}
	change.replace(pod, now.New, "annotations", func(key string) bool { return key == v1alpha1.StatusKey })
	change.replace(pod, now.New, "labels", func(key string) bool { _, is := record.OwnLabel(key); return is })
	return change, ""
}

// add adds a field that differs in the new pod. It returns the reason if the field cannot change in
// a running pod, or must not.
func (c *Change) add(pod map[string]any, rec record.Record, fresh map[string]any, path []string) (why string) {
	switch {
	case len(path) < 2 || path[0] != "spec" || !slices.Contains([]string{"initContainers", "containers"}, path[1]):
		return "it would change in " + podschema.Readable(path)
	case len(path) < 3:
		return "its list of containers would change"
	}
	name, field := strings.TrimPrefix(path[2], "name="), "more than its image"
	index, container := containerNamed(pod, path[1], name)
	if container == nil {
		return "its list of containers would change"
	}
	if len(path) > 3 {
		field = path[3]
	}
	place := rec.Tree().Child("spec").Child("initContainers").Child(path[2])
	switch {
	case path[1] != "initContainers" || container["restartPolicy"] != "Always":
		return fmt.Sprintf("its container %s would change in %s, and is no native sidecar", name, field)
	case field != "image":
		return fmt.Sprintf("its sidecar %s would change in %s", name, field)
	case place == nil || place.Entry == nil || place.Entry.Sum == "" || place.Child("image") == nil:
		return fmt.Sprintf("its container %s is not Pillion's", name)
	case record.Sum(nil, container["image"], nil) != place.Child("image").Entry.Sum:
		return podschema.Readable(path) + " is not what Pillion wrote: somebody changed it since"
	}
	_, wanted := containerNamed(fresh, path[1], name)
	from, _ := container["image"].(string)
	to, _ := wanted["image"].(string)
	if wanted["imagePullPolicy"] == nil && alwaysPulled(from) != alwaysPulled(to) {
		return fmt.Sprintf("its sidecar %s would change in imagePullPolicy, whose default comes from the image's tag (%s becomes %s)", name, from, to)
	}
	c.Sidecars = append(c.Sidecars, Sidecar{Name: name, From: from, To: to})
	c.operation(patch.Replace, []string{"spec", "initContainers", strconv.Itoa(index), "image"}, to)
	return ""
}

// replace sets the pod's labels or annotations with Pillion's keys to the new pod's values.
func (c *Change) replace(pod, fresh map[string]any, field string, ours func(key string) bool) {
	in := func(object map[string]any) map[string]any {
		metadata, _ := object["metadata"].(map[string]any)
		all, _ := metadata[field].(map[string]any)
		return all
	}
	have, want := in(pod), in(fresh)
	if have == nil && slices.ContainsFunc(slices.Collect(maps.Keys(want)), ours) {
		c.operation(patch.Add, []string{"metadata", field}, map[string]any{})
	}
	keys := map[string]any{}
	maps.Copy(keys, have)
	maps.Copy(keys, want)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		_, there := have[key]
		value, wanted := want[key]
		path := []string{"metadata", field, key}
		switch {
		case !ours(key) || there && have[key] == value:
		case !wanted:
			c.operation(patch.Remove, path, nil)
		default: // "add" replaces an existing value
			c.operation(patch.Add, path, value)
		}
	}
}

func (c *Change) operation(op string, path []string, value any) {
	c.Operations = append(c.Operations, patch.New(op, path, value))
}

// alwaysPulled reports whether the API server's default of imagePullPolicy is Always.
func alwaysPulled(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return !tagged || tag == "latest"
}

// containerNamed returns a container of a pod by its list and its name, with its place there.
func containerNamed(pod map[string]any, list, name string) (int, map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	items, _ := spec[list].([]any)
	for i, item := range items {
		if c, ok := item.(map[string]any); ok && c["name"] == name {
			return i, c
		}
	}
	return 0, nil
}
