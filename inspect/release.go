package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/settings"
)

// Container is the name of Pillion's container in the chart.
const Container = "pillion"

// settingsLabel is the label by which the ConfigMap with the settings is found.
const settingsLabel = "app.kubernetes.io/name=pillion,app.kubernetes.io/component=settings"

// ErrAbsent means that the ConfigMap with Pillion's settings does not exist, or that there are several.
var ErrAbsent = errors.New("looking for the ConfigMap with Pillion's settings")

// Release is an installation of Pillion: the settings of its server, and the ConfigMap that has them.
type Release struct {
	settings.Settings
	ConfigMap corev1.ConfigMap
}

// Release reads Pillion's settings.
func (c *Cluster) Release(ctx context.Context) (r Release, err error) {
	found, err := List[corev1.ConfigMap](ctx, c, corev1.SchemeGroupVersion.WithResource("configmaps"), c.Namespace, metav1.ListOptions{LabelSelector: settingsLabel})
	if err != nil {
		err = fmt.Errorf("reading Pillion's settings in namespace %s: %w", c.Namespace, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; --pillion-namespace names Pillion's namespace", err)
		}
		return r, err
	}
	if len(found) != 1 {
		return r, fmt.Errorf("%w: %d in namespace %s have the labels %s; there must be one; --pillion-namespace names Pillion's namespace", ErrAbsent, len(found), c.Namespace, settingsLabel)
	}
	r.ConfigMap = found[0]
	if r.Settings, err = settings.Parse([]byte(r.ConfigMap.Data[settings.File])); err != nil {
		return r, fmt.Errorf("ConfigMap %s in namespace %s: %w; use the pillion of the server's version", r.ConfigMap.Name, c.Namespace, err)
	}
	return r, nil
}

// Helm returns the name of the Helm release, or "" if Helm did not install Pillion. serverSide reports
// whether Helm wrote the objects by server-side apply, as Helm 4 does: Helm then needs a flag to restore
// fields that others changed.
func (r Release) Helm() (name string, serverSide bool) {
	if r.ConfigMap.Labels["app.kubernetes.io/managed-by"] != "Helm" {
		return "", false
	}
	return r.ConfigMap.Labels["app.kubernetes.io/instance"], slices.ContainsFunc(r.ConfigMap.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "helm" && e.Operation == metav1.ManagedFieldsOperationApply
	})
}
