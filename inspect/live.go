package inspect

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
)

// Live is a cluster with the settings and templates of its Pillion.
type Live struct {
	*Cluster
	Settings
	Compare drift.Comparer
	// Complete means that the server's settings were read. Otherwise Settings has the parts that a
	// team may read.
	Complete bool
	// Fallback is the namespace of objects without one.
	Fallback string

	// notes are about settings that could not be read. gaps are the facts that the user lacks the right to read.
	notes []explain.Note
	gaps  []gap
}

// WithSettings returns the cluster with settings.
func (c *Cluster) WithSettings(s Settings) *Live {
	return &Live{Cluster: c, Settings: s, Compare: drift.Comparer{
		Pipeline: injector.NewPipeline(injector.Config{
			Namespace: c.Namespace, ExcludedNamespaces: s.Excluded,
		}),
		Registration: entries.Registration{All: s.All, Excluded: s.Excluded},
	}}
}

// Live reads the settings of the server, or the parts that a team may read.
func (c *Cluster) Live(ctx context.Context) (*Live, error) {
	if err := c.CheckConnection(ctx); err != nil {
		return nil, err
	}
	settings, err := c.Settings(ctx)
	if !apierrors.IsForbidden(err) {
		if err != nil {
			return nil, err
		}
		l := c.WithSettings(settings)
		l.Complete = true
		return l, nil
	}
	settings, note, unread, teamErr := c.teamSettings(ctx)
	if teamErr != nil {
		return nil, teamErr
	}
	l := c.WithSettings(settings)
	if note != "" {
		l.notes = append(l.notes, explain.Note{Text: note})
	}
	if unread != nil {
		l.addGap("which rule chose a template, and its parameters", unread)
	}
	l.addGap("the installer's values, without which templates are compiled", err)
	return l, nil
}

// teamSettings returns the settings for a user who may not read the server's: the templates of the cluster, and the
// defaults of the other settings. The templates are nil if the user may not read them; unread is then the error. The note
// may be empty.
func (c *Cluster) teamSettings(ctx context.Context) (s Settings, note string, unread, err error) {
	s = Settings{
		Excluded: append(settings.DefaultExcluded(), c.Namespace), approximate: map[string]string{},
		Compile: templates.Options{ForeignSidecars: templates.DefaultForeignSidecars(), Check: injector.CheckRequired},
	}
	if s.All, s.scope, err = c.calledForAll(ctx, "pillion"); err != nil {
		return s, "", nil, err
	}
	found, err := c.Objects.Resource(store.Resource).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return s, "", err, nil
	case apierrors.IsNotFound(err):
		return s, "the API has no SidecarTemplates: Pillion is not installed, or its CRD is gone", nil, nil
	case err != nil:
		return s, "", nil, fmt.Errorf("reading the SidecarTemplates: %w", err)
	}
	s.Templates = store.Compile(found.Items, s.Compile)
	hashed := true
	var differ []string
	for i := range found.Items {
		o := store.NewObject(&found.Items[i])
		name, hash := o.Name, o.Status.Hash
		if c, ok := s.Templates.Canary(name); ok && c.Unusable != nil && hash == "" {
			continue // the server cannot use it, either
		}
		hashed = hashed && hash != ""
		if entry, _ := s.Templates.Find(name); hash != "" && s.Templates.HashOf(entry) != hash {
			s.approximate[name] = hash
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		note = fmt.Sprintf("the installer's values change %s: parameters and places that are shown of it may differ from the server's", strings.Join(differ, ", "))
	}
	s.Templates, s.AllExact = c.NamespacedTemplates(ctx, s.Templates, s.Compile), hashed && len(differ) == 0
	return s, note, nil, nil
}

// Namespace is a namespace of a cluster or of files.
type Namespace struct {
	templates.Namespace
	// Unread is the error of reading its metadata, or nil.
	Unread error

	// hasMetadata means that the metadata have been read. object is the namespace of a cluster.
	hasMetadata bool
	object      map[string]any
}

// NamespaceOf reads a namespace. If the user lacks the right, the result has Unread. It is an error
// if the namespace does not exist.
func (c *Cluster) NamespaceOf(ctx context.Context, name string) (Namespace, error) {
	ns := Namespace{Namespace: templates.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
	object, err := c.Objects.Resource(NamespacesResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		ns.Unread = err
	case err != nil:
		return ns, fmt.Errorf("reading namespace %s: %w", name, err)
	default:
		ns.object, ns.Namespace = object.Object, injector.NamespaceOf(object.Object)
	}
	return ns, nil
}

// exactPod decodes a pod for the pipeline, with numbers as json.Number.
func exactPod(u *unstructured.Unstructured) (map[string]any, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", u.GetName(), err)
	}
	return injector.DecodePod(data)
}
