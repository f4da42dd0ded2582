package check

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/inspect"
)

// account checks Pillion's ServiceAccount and the tokens of the replicas.
func account(ctx context.Context, in *installation) ([]Finding, error) {
	name := in.release.Server.Namespace + ":" + in.release.Server.ServiceAccount
	read, err := inspect.Get[corev1.ServiceAccount](ctx, in.cluster, corev1.SchemeGroupVersion.WithResource("serviceaccounts"), in.release.Server.Namespace, in.release.Server.ServiceAccount)
	if apierrors.IsNotFound(err) {
		return []Finding{failed(fmt.Sprintf("Pillion's service account %s is missing, so that API servers accept no request of its replicas (401). Create it again; then this check names the restart", name), in.restore())}, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := in.replicas()
	if err != nil {
		return nil, err
	}
	created := read.CreationTimestamp.Time
	var found []Finding
	for _, r := range all {
		if r.Created.Before(created) && !r.Created.IsZero() {
			found = append(found, failed(fmt.Sprintf("Pillion's service account %s was deleted, and created again at %s: the token of replica %s is of the deleted account", name, created.UTC().Format(time.RFC3339), r.Name), in.restart()))
		}
	}
	return limit(found, "replicas with such tokens"), nil
}

// rights compares the roles and their bindings with those that the chart renders.
func rights(ctx context.Context, in *installation) ([]Finding, error) {
	found, _, err := in.compareRendered(ctx, in.restore(), map[string]schema.GroupVersionResource{
		"Role":               rbacv1.SchemeGroupVersion.WithResource("roles"),
		"RoleBinding":        rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		"ClusterRole":        rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
		"ClusterRoleBinding": rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	})
	return found, err
}
