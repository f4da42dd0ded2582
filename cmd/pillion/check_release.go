package main

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/check"
	"github.com/pillion-dev/pillion/clientset/rights"
)

// revisions reads those of the Helm release, without what their Secrets hold. A release that is kept
// elsewhere (HELM_DRIVER) has none.
func (r checkReader) revisions(ctx context.Context, namespace, release string) ([]check.Revision, error) {
	if release == "" {
		return nil, nil
	}
	list, err := r.names.Resource(resourceOf("", "v1", "secrets")).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the Helm release %s: %w", release, rights.Named(err))
	}
	var all []check.Revision
	for _, secret := range list.Items {
		if number, err := strconv.Atoi(secret.Labels["version"]); err == nil {
			all = append(all, check.Revision{Number: number, Status: secret.Labels["status"], Created: secret.CreationTimestamp.Time})
		}
	}
	return all, nil
}
