package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/templates"
)

// target is what an argument TEMPLATE|NAMESPACE names, and -n: pods of the namespace, as far as
// they have to do with the template. Either may be empty; the zero value is the whole cluster.
type target struct{ template, namespace string }

// String returns the arguments that name the target whatever else there is.
func (t target) String() string {
	switch {
	case t.template != "" && t.namespace != "":
		return "sct/" + t.template + " -n " + t.namespace
	case t.template != "":
		return "sct/" + t.template
	case t.namespace != "":
		return "ns/" + t.namespace
	}
	return ""
}

// in narrows the target to the namespace of -n, "" for none.
func (t target) in(namespace string) (target, error) {
	if t.namespace != "" && namespace != "" && t.namespace != namespace {
		return t, usageError{fmt.Errorf("-n %s leaves out the namespace %s that is asked for", namespace, t.namespace)}
	}
	t.namespace = cmp.Or(t.namespace, namespace)
	return t, nil
}

// targetPrefixes say what a name is, as kubectl's names of resources do.
var targetPrefixes = map[string]bool{ // whether it is a namespace
	"ns": true, "namespace": true, "namespaces": true,
	"sct": false, "template": false, "sidecartemplate": false, "sidecartemplates": false,
}

// parseTarget splits an argument TEMPLATE|NAMESPACE. Its kind is one of targetPrefixes, or "" for
// a name alone.
func parseTarget(arg string) (kind, name string, err error) {
	kind, name, qualified := strings.Cut(arg, "/")
	if !qualified {
		kind, name = "", arg
	}
	_, known := targetPrefixes[kind]
	if name != "" && (known || !qualified) {
		return kind, name, nil
	}
	says := fmt.Sprintf("%q names neither a template nor a namespace; allowed are NAME, sct/NAME and ns/NAME", arg)
	if _, workload := kindOf(kind); workload {
		says += fmt.Sprintf("; of one workload, pillion explain -n NAMESPACE %s says how its pods stand, and pillion rollout ns/NAMESPACE --pods LABEL=VALUE brings its pods up to date", arg)
	}
	return "", "", usageError{errors.New(says)}
}

// findTarget returns what the argument names: ns/NAME, sct/NAME, or a NAME that only one of
// both has.
func findTarget(ctx context.Context, arg string, set *templates.Set, client metadata.Interface) (target, error) {
	kind, name, err := parseTarget(arg)
	if err != nil {
		return target{}, err
	}
	qualified, isNamespace := kind != "", targetPrefixes[kind]
	_, isTemplate := set.Get(name)
	exists := true
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
