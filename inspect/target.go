package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

// Target is the meaning of an argument TEMPLATE|NAMESPACE and of -n: the pods of the namespace that
// the template concerns. Either may be empty; the zero value is the whole cluster.
type Target struct{ Template, Namespace string }

// String returns arguments that name the target without ambiguity.
func (t Target) String() string {
	switch {
	case t.Template != "" && t.Namespace != "":
		return "sct/" + t.Template + " -n " + t.Namespace
	case t.Template != "":
		return "sct/" + t.Template
	case t.Namespace != "":
		return "ns/" + t.Namespace
	}
	return ""
}

// In narrows the target to the namespace of -n. It returns the target unchanged for "".
func (t Target) In(namespace string) (Target, error) {
	if t.Namespace != "" && namespace != "" && t.Namespace != namespace {
		return t, UsageError{fmt.Errorf("-n %s contradicts the namespace %s in the argument; give only one of them", namespace, t.Namespace)}
	}
	t.Namespace = cmp.Or(t.Namespace, namespace)
	return t, nil
}

// TargetPrefixes are the resource names that may precede a name, as in kubectl.
var TargetPrefixes = map[string]bool{ // whether it is a namespace
	"ns": true, "namespace": true, "namespaces": true,
	"sct": false, "template": false, "sidecartemplate": false, "sidecartemplates": false,
}

// ParseTarget splits an argument TEMPLATE|NAMESPACE. kind is one of TargetPrefixes, or "" for a name
// alone.
func ParseTarget(arg string) (kind, name string, err error) {
	kind, name, qualified := strings.Cut(arg, "/")
	if !qualified {
		kind, name = "", arg
	}
	_, known := TargetPrefixes[kind]
	if name != "" && (known || !qualified) {
		return kind, name, nil
	}
	says := fmt.Sprintf("%q names neither a template nor a namespace; allowed are NAME, sct/NAME and ns/NAME", arg)
	if _, workload := ObjectKindOf(kind); workload {
		says += fmt.Sprintf("; of one workload, pillion explain -n NAMESPACE %s says whether its pods are up to date, and kubectl rollout restart brings them up to date", arg)
	}
	return "", "", UsageError{errors.New(says)}
}

// FindTarget returns the target of an argument: ns/NAME, sct/NAME, or a NAME that is either a
// namespace or a template.
func (c *Cluster) FindTarget(ctx context.Context, arg string, set *templates.Set) (Target, error) {
	kind, name, err := ParseTarget(arg)
	if err != nil {
		return Target{}, err
	}
	qualified, isNamespace := kind != "", TargetPrefixes[kind]
	_, isTemplate := set.Get(name)
	if c, ok := set.Canary(name); ok && !isNamespace {
		return Target{}, UsageError{fmt.Errorf("%q is a canary; its pods have the template %s: name that, as sct/%s", name, c.Of, c.Of)}
	}
	exists := true
	if !qualified || isNamespace {
		_, err = c.Names.Resource(NamespacesResource).Get(ctx, name, metav1.GetOptions{})
		exists = err == nil
	}
	switch {
	case qualified && isNamespace && err != nil:
		return Target{}, fmt.Errorf("reading namespace %s: %w", name, err)
	case qualified && isNamespace:
		return Target{Namespace: name}, nil
	case qualified && !isTemplate:
		return Target{}, fmt.Errorf("there is no template %q in force; there are: %s", name, TemplateNames(set))
	case qualified:
		return Target{Template: name}, nil
	case isTemplate && exists:
		return Target{}, UsageError{fmt.Errorf("%q is a template and a namespace; write sct/%s or ns/%s", name, name, name)}
	case isTemplate:
		return Target{Template: name}, nil
	case exists:
		return Target{Namespace: name}, nil
	case !apierrors.IsNotFound(err):
		return Target{}, fmt.Errorf("there is no template %q in force (there are: %s), and reading namespace %s failed: %w", name, TemplateNames(set), name, err)
	}
	return Target{}, fmt.Errorf("no namespace and no template in force has the name %q; the templates are: %s", name, TemplateNames(set))
}

// Resolve returns the cluster with settings, and the target of an argument and of -n there. Both may be "".
func (c *Cluster) Resolve(ctx context.Context, settings Settings, arg, namespace string) (live *Live, of Target, err error) {
	if arg != "" {
		if of, err = c.FindTarget(ctx, arg, settings.Templates); err != nil {
			return nil, of, err
		}
	}
	of, err = of.In(namespace)
	return c.WithSettings(settings), of, err
}

// TemplateNames lists the names of templates for a message.
func TemplateNames(set *templates.Set) string {
	var names []string
	for _, e := range set.Entries() {
		names = append(names, e.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
