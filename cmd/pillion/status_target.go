package main

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/templates"
)

// target is what an argument TEMPLATE|NAMESPACE names. One of both is empty; the zero value
// is the whole cluster.
type target struct{ template, namespace string }

// String returns the argument that names the target whatever else there is.
func (t target) String() string {
	switch {
	case t.template != "":
		return "sct/" + t.template
	case t.namespace != "":
		return "ns/" + t.namespace
	}
	return ""
}

// targetPrefixes say what a name is, as kubectl's names of resources do.
var targetPrefixes = map[string]bool{ // whether it is a namespace
	"ns": true, "namespace": true, "namespaces": true,
	"sct": false, "template": false, "sidecartemplate": false, "sidecartemplates": false,
}

// findTarget returns what the argument names: ns/NAME, sct/NAME, or a NAME that only one of
// both has.
func findTarget(ctx context.Context, arg string, set *templates.Set, client metadata.Interface) (target, error) {
	kind, name, qualified := strings.Cut(arg, "/")
	if !qualified {
		name = arg
	}
	isNamespace, known := targetPrefixes[kind]
	if name == "" || qualified && !known {
		return target{}, usageError{fmt.Errorf("%q names neither a template nor a namespace; allowed are NAME, sct/NAME and ns/NAME", arg)}
	}
	_, isTemplate := set.Get(name)
	exists, err := true, error(nil)
	if !qualified || isNamespace {
		_, err = client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
		exists = err == nil
	}
	switch {
	case qualified && isNamespace && err != nil:
		return target{}, granting(fmt.Errorf("reading namespace %s: %w", name, err))
	case qualified && isNamespace:
		return target{namespace: name}, nil
	case qualified && !isTemplate:
		return target{}, fmt.Errorf("there is no template %q in force; there are: %s", name, templateNames(set))
	case qualified:
		return target{template: name}, nil
	case isTemplate && exists:
		return target{}, usageError{fmt.Errorf("%q is a template and a namespace; say sct/%s or ns/%s", name, name, name)}
	case isTemplate:
		return target{template: name}, nil
	case exists:
		return target{namespace: name}, nil
	case !apierrors.IsNotFound(err):
		return target{}, granting(fmt.Errorf("there is no template %q in force (there are: %s), and reading namespace %s failed: %w", name, templateNames(set), name, err))
	}
	return target{}, fmt.Errorf("there is neither a namespace %q nor a template of that name in force; templates are: %s", name, templateNames(set))
}

func templateNames(set *templates.Set) string {
	var names []string
	for _, e := range set.All() {
		names = append(names, e.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
