package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
	"github.com/pillion-dev/pillion/webhook/state"
)

// definition has the fields of a CustomResourceDefinition that are checked.
type definition struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// applyDefinitions is the command that applies the chart's CRDs.
const applyDefinitions = "helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -"

func crds(ctx context.Context, in *installation) ([]Finding, error) {
	resources := []schema.GroupVersionResource{store.Resource}
	if in.release.Templates.Namespaced {
		resources = append(resources, store.NamespacedResource)
	}
	var found []Finding
	for _, resource := range resources {
		name := resource.GroupResource().String()
		crd, err := inspect.Get[definition](ctx, in.cluster, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", name)
		switch {
		case apierrors.IsNotFound(err):
			found = append(found, failed(fmt.Sprintf("there is no CustomResourceDefinition %s. Restore it, and then its templates. Restart no replica before", name), applyDefinitions))
			if resource == store.Resource {
				found = append(found, failed("the templates of the release went with their definition. When it is back, restore them, and have the others applied again ("+applyTemplates+")", in.restore()))
			}
		case err != nil:
			return found, err
		default:
			found = append(found, checkDefinition(crd)...)
		}
	}
	return found, nil
}

// checkDefinition checks a CustomResourceDefinition.
func checkDefinition(crd definition) []Finding {
	established := cmp.Or(meta.FindStatusCondition(crd.Status.Conditions, "Established"), &metav1.Condition{})
	var served []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	switch {
	case established.Status != metav1.ConditionTrue:
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s is not established: %s", crd.Name, established.Message), "kubectl get crd "+crd.Name+" -o yaml")}
	case !slices.Contains(served, v1alpha1.Version):
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s serves %s, and this pillion reads %s", crd.Name, strings.Join(served, ", "), v1alpha1.Version), applyDefinitions)}
	}
	return nil
}

// applyTemplates is the command that applies templates from the files of their author.
const applyTemplates = "kubectl apply -f SIDECARTEMPLATES"

// getTemplate is the command that reads a SidecarTemplate.
func getTemplate(name string) string { return "kubectl get sidecartemplate " + name + " -o yaml" }

// servedHashes returns the templates that replicas report as in force, with the hashes of all
// replicas. The hash of a replica without the template is "".
func (in *installation) servedHashes() map[string]map[string]bool {
	all, _ := in.replicas() // the check replicas reports the error
	all = slices.DeleteFunc(slices.Clone(all), func(r state.Replica) bool { return !r.Answers })
	hashes := map[string]map[string]bool{}
	for _, r := range all {
		for name := range r.Templates {
			hashes[name] = map[string]bool{}
		}
	}
	for _, r := range all {
		for name, of := range hashes {
			of[r.Templates[name]] = true
		}
	}
	return hashes
}

// lostTemplates returns the templates in force whose objects do not exist.
func (in *installation) lostTemplates(set *templates.Set) []string {
	served := in.servedHashes()
	maps.DeleteFunc(served, func(name string, _ map[string]bool) bool { _, there := set.Find(name); return there })
	return slices.Sorted(maps.Keys(served))
}

func allTemplates(ctx context.Context, in *installation) ([]Finding, error) {
	set, err := in.templates()
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, e := range set.All() {
		c, _ := set.Canary(e.Name)
		if wrong := cmp.Or(e.Err, c.Unusable); wrong != nil {
			found = append(found, failed(fmt.Sprintf("template %s has a mistake: %s", e.Name, oneLine(wrong.Error())), getTemplate(e.Name)+" | pillion lint -"))
		}
	}
	refused, err := in.unaccepted(ctx)
	found = append(limit(found, "templates with a mistake"), limit(refused, "templates that are not accepted")...)
	if err != nil {
		return found, err
	}
	if lost := in.lostTemplates(set); len(lost) > 0 {
		found = append(found, warning(fmt.Sprintf("the templates %s are in force, and their objects are gone: replicas that start do not have them, so restart none until they are back", show.Some(lost, maxNames)), applyTemplates))
	}
	var differing []string
	for name, hashes := range in.servedHashes() {
		if len(hashes) > 1 {
			differing = append(differing, name)
		}
	}
	if slices.Sort(differing); len(differing) > 0 {
		found = append(found, warning(fmt.Sprintf("replicas apply different versions of %s; within a second of a change that is as it should be", show.Some(differing, maxNames)), in.pillion("pillion status")))
	}
	return found, nil
}

// unaccepted finds the templates whose condition Accepted is False.
func (in *installation) unaccepted(ctx context.Context) (found []Finding, err error) {
	for _, resource := range []schema.GroupVersionResource{store.Resource, store.NamespacedResource} {
		if resource == store.NamespacedResource && !in.release.Templates.Namespaced {
			continue
		}
		all, err := in.cluster.Unaccepted(ctx, resource, "")
		if err != nil && !apierrors.IsNotFound(err) { // the check crds reports a missing CRD
			return found, err
		}
		for _, t := range all {
			name, get := t.Name, getTemplate(t.Name)
			if t.Namespace != "" {
				name, get = t.Namespace+"/"+t.Name, fmt.Sprintf("kubectl -n %s get namespacedsidecartemplate %s -o yaml", t.Namespace, t.Name)
			}
			found = append(found, failed(fmt.Sprintf("template %s is not accepted: %s", name, oneLine(t.Message)), get))
		}
	}
	return found, nil
}
