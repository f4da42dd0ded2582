package inspect

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/offline/workload"
)

// Served is what a server is told by its arguments and its environment.
type Served struct {
	// Needs has the settings. What the Deployment says is added to it.
	check.Needs
	// Config and Values are the paths of files, "" for none.
	Config, Values string
	// Library are names of templates, Templates are directories.
	Library, Templates []string
	ForeignSidecars    []string
	// AdminListen is the address of probes, metrics and state.
	AdminListen string
}

// Serve reads what the server in a container is told.
type Serve func(corev1.Container) (Served, error)

// Container is the name of Pillion's container in the chart. It does not depend on the names of
// the release and the chart.
const Container = "pillion"

// release is Pillion's Deployment, and what its server is told.
type release struct {
	deployment appsv1.Deployment
	container  corev1.Container
	Served
}

// release reads Pillion's Deployment.
func (c *Cluster) release(ctx context.Context) (r release, err error) {
	found, err := listed[appsv1.Deployment](ctx, c, resourceOf("apps", "v1", "deployments"), c.Namespace, metav1.ListOptions{LabelSelector: c.Selector})
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
				r.deployment, r.container = d, container
				serving++
			}
		}
	}
	if serving != 1 {
		return r, fmt.Errorf("%w: %d in namespace %s have a container called %s that serves; there must be one; --pillion-namespace names Pillion's namespace, and --pillion-selector tells two releases apart",
			check.ErrAbsent, serving, c.Namespace, Container)
	}
	if r.Served, err = c.Serve(r.container); err != nil {
		return r, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: %w", r.deployment.Name, c.Namespace, err)
	}
	r.describe(c.Namespace)
	return r, nil
}

// describe adds to the settings what the Deployment says.
func (r *release) describe(namespace string) {
	s, d := &r.Settings, r.deployment
	s.Namespace, s.Excluded = namespace, append(s.Excluded, namespace)
	s.Account = "system:serviceaccount:" + namespace + ":" + r.account()
	s.Policies = d.Annotations[s.Prefix+"/admission-policies"] == "wanted"
	if d.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		s.Release = d.Labels["app.kubernetes.io/instance"]
		s.ServerSideHelm = slices.ContainsFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == "helm" && e.Operation == metav1.ManagedFieldsOperationApply
		})
	}
	s.Rights = check.ServerRights(r.Needs)
}

// account returns the name of Pillion's ServiceAccount.
func (r *release) account() string {
	return cmp.Or(r.deployment.Spec.Template.Spec.ServiceAccountName, "default")
}

// facts is the Deployment for checks. Given: other replicas are asked.
func (r *release) facts(given bool) check.Deployment {
	d := r.deployment
	var port int32
	for _, p := range r.container.Ports {
		if p.Name == check.WebhookPort {
			port = p.ContainerPort
		}
	}
	return check.Deployment{
		WebhookPort: port,
		Name:        d.Name, PodLabels: d.Spec.Template.Labels, Wanted: *cmp.Or(d.Spec.Replicas, new(int32(1))), Available: d.Status.AvailableReplicas, Updated: d.Status.UpdatedReplicas, Given: given,
	}
}

// files returns the files in a folder of Pillion's container, from the ConfigMap that is mounted
// there.
func (c *Cluster) files(ctx context.Context, r release, dir string) (map[string]string, error) {
	for _, mount := range r.container.VolumeMounts {
		if path.Clean(mount.MountPath) != path.Clean(dir) {
			continue
		}
		for _, volume := range r.deployment.Spec.Template.Spec.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			read, err := one[corev1.ConfigMap](ctx, c, resourceOf("", "v1", "configmaps"), c.Namespace, volume.ConfigMap.Name)
			if err != nil {
				return nil, fmt.Errorf("reading ConfigMap %s in namespace %s, which Pillion reads as %s: %w", volume.ConfigMap.Name, c.Namespace, dir, err)
			}
			return read.Data, nil
		}
	}
	return nil, fmt.Errorf("reading what Pillion reads as %s: Deployment %s in namespace %s mounts no ConfigMap there", dir, r.deployment.Name, c.Namespace)
}

// values returns the installer's values, from a file of Pillion's container.
func (c *Cluster) values(ctx context.Context, r release, file string) (map[string]any, error) {
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
