package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// templateNames finds names of templates in annotations of namespaces that do not exist. A template
// exists if replicas report it as in force, or if the API server has its object.
func templateNames(ctx context.Context, in *installation) ([]Finding, error) {
	set, err := in.templates()
	if err != nil {
		return nil, err
	}
	namespaces, err := in.namespaces()
	if err != nil {
		return nil, err
	}
	served := slices.DeleteFunc(slices.Collect(maps.Keys(in.servedHashes())), func(name string) bool { _, canary := set.Canary(name); return canary })
	var found []Finding
	for _, ns := range namespaces {
		if in.release.Registration().KeepsOut(ns.Namespace) {
			continue
		}
		known := slices.Clone(served)
		for _, e := range set.In(ns.Name).Entries() {
			known = append(known, e.Name)
		}
		finding, err := in.checkNames(ctx, ns, known)
		if err != nil {
			return found, err
		}
		if finding != nil {
			found = append(found, *finding)
		}
		if len(found) > maxFindings {
			break
		}
	}
	return limit(found, "namespaces with such names"), nil
}

// anyTemplate is the placeholder in a command for the name of a template.
const anyTemplate = "TEMPLATE"

// checkNames checks the annotation of a namespace. It returns nil if all names are in known.
func (in *installation) checkNames(ctx context.Context, ns labels.Namespace, known []string) (*Finding, error) {
	key := v1alpha1.InjectKey
	value, there := ns.Annotations[key]
	annotate := func(names ...string) string {
		return fmt.Sprintf("kubectl annotate namespace %s %s=%s --overwrite", ns.Name, key, strings.Join(names, ","))
	}
	ask, err := policy.ParseAnnotation(value, there, policy.Namespace)
	if err != nil {
		return new(failed(fmt.Sprintf("the annotation %s of namespace %s is %q: %v", key, ns.Name, value, err), annotate(anyTemplate))), nil
	}
	var wrong, instead []string
	for _, name := range ask.Names {
		if slices.Contains(known, name) {
			instead = append(instead, name)
			continue
		}
		wrong = append(wrong, name)
		near, ok := nearest.Name(name, known)
		switch {
		case !ok:
			instead = append(instead, anyTemplate)
		case !slices.Contains(ask.Names, near):
			instead = append(instead, near)
		}
	}
	if len(wrong) == 0 {
		return nil, nil
	}
	message := fmt.Sprintf("namespace %s names %s, which does not exist", ns.Name, show.Some(wrong, maxNames))
	for _, name := range wrong {
		pods, err := in.cluster.Names.Resource(inspect.PodsResource).Namespace(ns.Name).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.HashLabel(name), Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("listing pods of namespace %s: %w", ns.Name, err)
		}
		if len(pods.Items) > 0 { // with another name, new pods would lose the sidecar
			return new(failed(fmt.Sprintf("%s; pods of it run with the sidecar of %s. Apply the template again", message, name), applyTemplates)), nil
		}
	}
	return new(failed(message+nearest.Hint(wrong[0], known), annotate(instead...))), nil
}
