package merge

import (
	"errors"
	"fmt"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const (
	// The hints of conflicts. Each completes a sentence with the value of the pod and the template's.
	hintReplaces   = "that template replaces the whole of it"
	hintDeletes    = "that template deletes it"
	hintDeletesIn  = "that template deletes a part of it"
	hintNeeds      = "that template needs it"
	hintExtends    = "that template extends it, and would lose its additions"
	hintWholeText  = "that template sets the whole text"
	hintSeparators = "the two join their texts with different separators"
	hintSource     = "the variable has valueFrom, so no text can be joined to it; set a variable of another name, and name both where it is used"
	hintUnion      = "only one of them can be set"
	hintCopy       = "if the pod is a copy by kubectl debug --copy-to, add --keep-annotations"
	hintNames      = "names are unique among init, app and ephemeral containers"

	// The warnings about one place.
	templateReplaces = "the template's value replaces the pod's"
	podValueStays    = "the pod's value is used, not the template's"
	pathMounted      = "the app already mounts this path, so a sidecar will not see its files"
	noAnchor         = "the pod has no %s to put it %s, so it is placed as without $position"

	// The faults of a fragment.
	twoAccounts    = "it is the old name of serviceAccountName, so the two must be equal; they are %s and %s"
	twoExtensions  = "it has no image, and neither has the item of that name in containers; use one of the two: it extends the container of its name in either list"
	containersHave = "%w; the pod has %s"

	// The fault of a pod.
	wrongKind = "it is %s; %s is expected"
)

func (e *Conflict) Error() string {
	whose, hint := "the pod has", ""
	if e.Other != "" {
		whose = "template " + e.Other + " has"
	}
	if e.Hint != "" {
		hint = " (" + e.Hint + ")"
	}
	return fmt.Sprintf("template %s conflicts at %s: %s %s, the template sets %s%s", e.Template, e.Path.Readable(), whose, shown(e.Stands), shown(e.Wants), hint)
}

func shown(v any) string {
	if v == nil {
		return "nothing there"
	}
	return podschema.Show(v)
}

func (w Warning) String() string {
	return fmt.Sprintf("template %s: %s: %s", w.Template, w.Path.Readable(), w.Text)
}

// Warning returns the warning for the pod's author. It returns "" if the template explicitly lets the pod's
// value win.
func (k PodValue) Warning() string {
	text := podValueStays
	switch list := k.Path.Parent(); {
	case k.Why == KeptByOverridable, k.Why == KeptByNode:
		return ""
	case list != nil && list.Name() == "volumeMounts" && podschema.ObjectOf(k.Has)["name"] != podschema.ObjectOf(k.Wants)["name"]:
		text = pathMounted
	}
	return Warning{Template: k.Template, Path: k.Path, Text: text}.String()
}

// ErrNothingToExtend is the error inside a [FragmentError] when a template extends a container that
// the pod does not have.
var ErrNothingToExtend = errors.New("it has no image, so it extends the pod's container of that name, and the pod has none, neither among its containers nor among its initContainers")

func (e *FragmentError) Error() string {
	return fmt.Sprintf("merging template %s: at %s: %v", e.Template, e.Path, e.Err)
}

func (e *PodError) Error() string {
	text := fmt.Sprintf("the pod is malformed at %s: %v", e.Path, e.Err)
	if e.Template == "" { // Pillion's own labels and annotations belong to no template
		return text
	}
	return "merging template " + e.Template + ": " + text
}
