package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Settings are the server's settings that decide the outcome for a pod, with its templates.
type Settings struct {
	Excluded []string
	// All means that API servers call Pillion for the pods of all namespaces that do not opt out.
	All bool
	// Compile has the options of the server's compiler.
	Compile templates.Options
	// Templates is the set in force. It is nil if the templates cannot be read.
	Templates *templates.Set
	// AllExact means that Templates has all templates, with the hashes that are in force.
	AllExact bool

	// scope is the error of reading All, or nil.
	scope error
	// approximate has the hash in force of each template for which Templates has another hash,
	// because the server's settings could not be read.
	approximate map[string]string
}

// Settings reads the server's settings, and the cluster's templates.
func (c *Cluster) Settings(ctx context.Context) (Settings, error) {
	r, err := c.Release(ctx)
	if err != nil {
		return Settings{}, err
	}
	return c.SettingsOf(ctx, r)
}

// SettingsOf reads the templates of a release.
func (c *Cluster) SettingsOf(ctx context.Context, r Release) (s Settings, err error) {
	s = Settings{AllExact: true, Excluded: r.Namespaces.Excluded, All: r.Registration().All}
	if s.Compile, err = r.Compile(); err != nil {
		return s, err
	}
	s.Compile.Check = injector.CheckRequired
	list, err := c.Objects.Resource(store.Resource).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // without the CRD there are none
		return s, fmt.Errorf("listing %s: %w", store.Resource.Resource, err)
	}
	if list == nil {
		list = &unstructured.UnstructuredList{}
	}
	s.Templates = store.Compile(list.Items, s.Compile)
	if r.Settings.Templates.Namespaced {
		s.Templates = c.NamespacedTemplates(ctx, s.Templates, s.Compile)
	}
	return s, nil
}

// calledForAll reports whether an entry for pods selects namespaces with and without the injection
// label. unread is the error of a missing right to read the configuration; all is then false.
func (c *Cluster) calledForAll(ctx context.Context, configuration string) (all bool, unread, err error) {
	read, err := Get[admissionv1.MutatingWebhookConfiguration](ctx, c, gvr(admissionv1.GroupName, "v1", "mutatingwebhookconfigurations"), "", configuration)
	switch {
	case apierrors.IsForbidden(err):
		return false, err, nil
	case apierrors.IsNotFound(err):
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	for _, w := range read.Webhooks {
		selector, wrong := metav1.LabelSelectorAsSelector(cmp.Or(w.NamespaceSelector, &metav1.LabelSelector{}))
		pods := slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, "pods") })
		if wrong == nil && pods && selector.Matches(labels.Set{v1alpha1.InjectionLabel: v1alpha1.InjectionEnabled}) && selector.Matches(labels.Set{}) {
			return true, nil, nil
		}
	}
	return false, nil, nil
}
