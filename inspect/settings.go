package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	pillionlabels "github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Settings decide what the running Pillion gives to a pod.
type Settings struct {
	Prefix   string
	Excluded []string
	// All: API servers call Pillion for the pods of all namespaces that do not opt out.
	All bool
	// Enforcement says which namespaces become enforced once the server has proven that it works.
	Enforcement pillionlabels.Enforcement
	// Compile is what the server compiles templates with.
	Compile templates.Options
	// Templates are those in force; nil where not even they can be read.
	Templates *templates.Set
	// Whole: the templates are all that are in force, as they are in force.
	Whole bool

	// scope is why All could not be read, nil if it was.
	scope error
	// approximate has the hashes of templates that another hash is in force of than Templates has:
	// they were compiled without the server's settings, which could not be read.
	approximate map[string]string
}

// Settings reads the server's settings from Pillion's Deployment and its ConfigMaps, and from the
// cluster's SidecarTemplates. The library is that of this binary.
func (c *Cluster) Settings(ctx context.Context) (Settings, error) {
	r, err := c.Release(ctx)
	if err != nil {
		return Settings{}, err
	}
	return c.SettingsOf(ctx, r)
}

// SettingsOf reads the settings of a release.
func (c *Cluster) SettingsOf(ctx context.Context, r Release) (s Settings, err error) {
	if r.Config != "" {
		return s, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: they name the file %s, which this command cannot read", r.Deployment.Name, c.Namespace, r.Config)
	}
	s = Settings{Whole: true, Prefix: r.Prefix, Excluded: r.Excluded, All: r.All, Enforcement: r.Enforcement, Compile: templates.Options{Prefix: r.Prefix, ForeignSidecars: r.ForeignSidecars, Check: injector.CheckRequired}}
	if r.Values != "" {
		if s.Compile.Values, err = c.values(ctx, r, r.Values); err != nil {
			return s, err
		}
	}
	library, err := store.LibraryReport(s.Compile.Values, r.Library...)
	if err != nil {
		return s, fmt.Errorf("taking the library's templates that Deployment %s serves: %w; use the pillion of that version", r.Deployment.Name, err)
	}
	reports := []store.Report{library}
	for _, dir := range r.ServedTemplates.Templates {
		files, err := c.files(ctx, r, dir)
		if err != nil {
			return s, err
		}
		reports = append(reports, manifestsOf(dir, files))
	}
	if r.ClusterTemplates {
		own, err := c.clusterTemplates(ctx, r.Prefix)
		if err != nil {
			return s, err
		}
		reports = append(reports, own)
	}
	s.Templates = store.Once(s.Compile, reports...)
	if r.NamespacedTemplates {
		s.Templates = c.NamespacedTemplates(ctx, s.Templates, s.Compile)
	}
	return s, nil
}

// clusterTemplates reads the SidecarTemplates of the cluster: none without their CRD.
func (c *Cluster) clusterTemplates(ctx context.Context, prefix string) (store.Report, error) {
	list, err := c.Objects.Resource(resourceOf(prefix, v1alpha1.Version, store.Resource)).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return store.Report{}, nil
	case err != nil:
		return store.Report{}, fmt.Errorf("listing %s: %w", store.Resource, err)
	}
	return store.ReportOf(list.Items, prefix), nil
}

// manifestsOf returns the manifests in a directory of files.
func manifestsOf(dir string, files map[string]string) (r store.Report) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			r.Units = append(r.Units, store.Unit{Source: path.Join(dir, name), Data: []byte(files[name])})
		}
	}
	return r
}

// calledForAll reports whether an entry for pods is for namespaces with the label of injection and
// for those without it. Unread says which right is missing to read the configuration, which then
// counts as one that is not for all.
func (c *Cluster) calledForAll(ctx context.Context, prefix, configuration string) (all bool, unread, err error) {
	read, err := Get[admissionv1.MutatingWebhookConfiguration](ctx, c, resourceOf(admissionv1.GroupName, "v1", "mutatingwebhookconfigurations"), "", configuration)
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
		if wrong == nil && pods && selector.Matches(labels.Set{templates.InjectionLabel(prefix): templates.InjectionEnabled}) && selector.Matches(labels.Set{}) {
			return true, nil, nil
		}
	}
	return false, nil, nil
}
