package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/offline/workload"
)

// Served are the settings in a server's arguments and environment that commands read.
type Served struct {
	Prefix, Namespace, Service string
	// AdminListen is the address of probes, metrics and state.
	AdminListen string
	// Mutating and Validating are the names of the webhook configurations.
	Mutating, Validating []string
	ServedTemplates
	ServedNamespaces
	ServedCertificates
}

// ServedTemplates say where a server has its templates from.
type ServedTemplates struct {
	// Config and Values are the paths of files, "" for none.
	Config, Values string
	// Library are names of templates, Templates are directories.
	Library, Templates                    []string
	ForeignSidecars                       []string
	ClusterTemplates, NamespacedTemplates bool
}

// ServedNamespaces say which namespaces a server is called for, and which labels it sets.
type ServedNamespaces struct {
	// Excluded are the namespaces that Pillion keeps out of, its own among them.
	Excluded []string
	// All: the pods of every namespace pass that does not opt out.
	All bool
	// Enforcement says which namespaces become enforced once the server has proven that it works.
	Enforcement labels.Enforcement
	// ProofNamespace is the namespace of the pods by which a server proves that it works, "" for none.
	ProofNamespace string
}

// ServedCertificates say where a server has its certificate from.
type ServedCertificates struct {
	Provider string
	// Publishes: the server writes the caBundles.
	Publishes    bool
	LeafDuration time.Duration
}

// Usage says which namespaces use templates.
func (s Served) Usage() usage.Rules { return usage.Rules{Prefix: s.Prefix, Excluded: s.Excluded} }

// Labels are the rules of the labels that Pillion manages on namespaces.
func (s Served) Labels() labels.Rules {
	return labels.Rules{Prefix: s.Prefix, Excluded: s.Excluded, Enforcement: s.Enforcement}
}

// Registration says for which pods API servers call Pillion.
func (s Served) Registration() entries.Registration {
	return entries.Registration{Prefix: s.Prefix, All: s.All, Excluded: s.Excluded}
}

// Serve reads the arguments and the environment of the server in a container.
type Serve func(corev1.Container) (Served, error)

// Container is the name of Pillion's container in the chart. It does not depend on the names of
// the release and the chart.
const Container = "pillion"

// ErrAbsent says that Pillion's Deployment is not there, or is not the only one.
var ErrAbsent = errors.New("looking for Pillion's Deployment")

// Release is Pillion's Deployment, with the settings of its server.
type Release struct {
	Deployment appsv1.Deployment
	Served
	container corev1.Container
}

// Release reads Pillion's Deployment.
func (c *Cluster) Release(ctx context.Context) (r Release, err error) {
	found, err := List[appsv1.Deployment](ctx, c, resourceOf("apps", "v1", "deployments"), c.Namespace, metav1.ListOptions{LabelSelector: c.Selector})
	if err != nil {
		err = fmt.Errorf("looking for Pillion's Deployment in namespace %s: %w", c.Namespace, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; --pillion-namespace names Pillion's namespace", err)
		}
		return r, err
	}
	serving := 0
	for _, d := range found {
		for _, container := range d.Spec.Template.Spec.Containers {
			if container.Name == Container && len(container.Args) > 0 && container.Args[0] == "serve" {
				r.Deployment, r.container = d, container
				serving++
			}
		}
	}
	if serving != 1 {
		return r, fmt.Errorf("%w: %d in namespace %s have a container called %s that serves; there must be one; --pillion-namespace names Pillion's namespace, and --pillion-selector tells two releases apart",
			ErrAbsent, serving, c.Namespace, Container)
	}
	if r.Served, err = c.Serve(r.container); err != nil {
		return r, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: %w", r.Deployment.Name, c.Namespace, err)
	}
	r.Namespace, r.Excluded = c.Namespace, append(r.Excluded, c.Namespace)
	return r, nil
}

// Account returns the name of Pillion's ServiceAccount.
func (r Release) Account() string {
	return cmp.Or(r.Deployment.Spec.Template.Spec.ServiceAccountName, "default")
}

// Helm returns the name of the Helm release, "" if Helm did not install Pillion. ServerSide reports
// whether Helm wrote the objects by server-side apply, as Helm 4 does: then it has to be told to take
// back fields that others changed.
func (r Release) Helm() (name string, serverSide bool) {
	if r.Deployment.Labels["app.kubernetes.io/managed-by"] != "Helm" {
		return "", false
	}
	return r.Deployment.Labels["app.kubernetes.io/instance"], slices.ContainsFunc(r.Deployment.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "helm" && e.Operation == metav1.ManagedFieldsOperationApply
	})
}

// files returns the files in a folder of Pillion's container, from the ConfigMap that is mounted
// there.
func (c *Cluster) files(ctx context.Context, r Release, dir string) (map[string]string, error) {
	for _, mount := range r.container.VolumeMounts {
		if path.Clean(mount.MountPath) != path.Clean(dir) {
			continue
		}
		for _, volume := range r.Deployment.Spec.Template.Spec.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			read, err := Get[corev1.ConfigMap](ctx, c, resourceOf("", "v1", "configmaps"), c.Namespace, volume.ConfigMap.Name)
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s in namespace %s, which Pillion reads as %s: %w", volume.ConfigMap.Name, c.Namespace, dir, err)
			}
			return read.Data, nil
		}
	}
	return nil, fmt.Errorf("reading what Pillion reads as %s: Deployment %s in namespace %s mounts no ConfigMap there", dir, r.Deployment.Name, c.Namespace)
}

// values returns the installer's values, from a file of Pillion's container.
func (c *Cluster) values(ctx context.Context, r Release, file string) (map[string]any, error) {
	files, err := c.files(ctx, r, path.Dir(file))
	if err != nil {
		return nil, err
	}
	values, err := workload.ParseValues([]byte(files[path.Base(file)]))
	if err != nil {
		return nil, fmt.Errorf("reading the values that Pillion reads as %s: %w", file, err)
	}
	return values, nil
}
