package certs

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// permission is one thing that the process must be allowed to do.
type permission struct {
	verb, group, resource, namespace, name string
}

// String names verb, resource and object, and who grants it.
func (p permission) String() string {
	var b strings.Builder
	b.WriteString(p.verb + " " + p.resource)
	if p.group != "" {
		b.WriteString("." + p.group)
	}
	if p.name != "" {
		fmt.Fprintf(&b, " %q", p.name)
	}
	if p.namespace == "" {
		b.WriteString(" (granted by the chart's ClusterRole)")
		return b.String()
	}
	fmt.Fprintf(&b, " in namespace %q (granted by the chart's Role)", p.namespace)
	return b.String()
}

// permissionsFor lists what the self-signed provider does in the cluster.
func permissionsFor(namespace, secret string, configurations []string) []permission {
	var list []permission
	for _, verb := range []string{"get", "list", "watch", "update"} {
		list = append(list, permission{verb, "", "secrets", namespace, secret})
	}
	// A create request carries no name that authorization could look at.
	list = append(list, permission{"create", "", "secrets", namespace, ""})
	for _, name := range configurations {
		for _, verb := range []string{"list", "watch", "patch"} {
			list = append(list, permission{verb, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", name})
		}
	}
	return list
}

// checkPermissions asks the API server whether the process has all of them. The
// error names all that are missing.
//
// Following an object without the permission retries for ever and only logs it,
// and cert-manager's authority waits for ever: so the question comes first.
func checkPermissions(ctx context.Context, client kubernetes.Interface, list []permission) error {
	var missing []string
	for _, p := range list {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: p.verb, Group: p.group, Resource: p.resource, Namespace: p.namespace, Name: p.name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking the API server whether it is allowed to %s: %w", p, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, p.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing permission: %s", strings.Join(missing, "; "))
	}
	return nil
}
