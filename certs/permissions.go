package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// permission is one thing that the process must be allowed to do.
type permission struct {
	verb, group, resource, namespace, name string

	// value is the chart's value that grants it, besides rbac.create.
	value string
}

// String names verb, resource and object, and the chart's values that grant it.
func (p permission) String() string {
	return fmt.Sprintf("%s (the chart grants it with rbac.create=true and %s)", p.what(), p.value)
}

// what names verb, resource and object.
func (p permission) what() string {
	var b strings.Builder
	b.WriteString(p.verb + " " + p.resource)
	if p.group != "" {
		b.WriteString("." + p.group)
	}
	if p.name != "" {
		fmt.Fprintf(&b, " %q", p.name)
	}
	if p.namespace != "" {
		fmt.Fprintf(&b, " in namespace %q", p.namespace)
	}
	return b.String()
}

// secretPermissions are those on one Secret; value is the chart's value that
// names it.
func secretPermissions(namespace, name, value string, verbs ...string) []permission {
	var list []permission
	for _, verb := range verbs {
		p := permission{verb: verb, resource: "secrets", namespace: namespace, name: name, value: value + "=" + name}
		if verb == "create" {
			p.name = "" // a create request carries no name that authorization could look at
		}
		list = append(list, p)
	}
	return list
}

// configurationPermissions are those on the webhook configurations. provider is
// the chart's value that makes the difference.
func configurationPermissions(configurations []WebhookConfiguration, provider string, verbs ...string) []permission {
	var list []permission
	for _, c := range configurations {
		value := chartsValue(c, configurations)
		for _, verb := range verbs {
			list = append(list, permission{verb, "admissionregistration.k8s.io", c.Kind.resource(), "", c.Name, value + " and " + provider})
		}
	}
	return list
}

// chartsValue is the value by which the chart has the configuration in the list: its own
// two have one name, which it gives first; all others were named to it.
func chartsValue(c WebhookConfiguration, list []WebhookConfiguration) string {
	own := ""
	if i := slices.IndexFunc(list, func(c WebhookConfiguration) bool { return c.Kind == Mutating }); i >= 0 {
		own = list[i].Name
	}
	switch {
	case c.Name != own:
		return fmt.Sprintf("certs.webhookConfigurations=[{kind: %s, name: %s}]", c.Kind, c.Name)
	case c.Kind == Validating:
		return "webhook.name=" + own + " and (webhook.required.enabled=true or clusterTemplates=true)"
	}
	return "webhook.name=" + own
}

// missingError names what is missing.
func missingError(list ...permission) error {
	var names []string
	for _, p := range list {
		names = append(names, p.String())
	}
	return fmt.Errorf("missing permission: %s", strings.Join(names, "; "))
}

// missingPermissions asks the API server which of them the process has not. The error
// says that it could not be asked.
//
// Following an object without the permission retries for ever and only logs it:
// so the question comes first.
func missingPermissions(ctx context.Context, client kubernetes.Interface, list []permission) ([]permission, error) {
	var missing []permission
	for _, p := range list {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: p.verb, Group: p.group, Resource: p.resource, Namespace: p.namespace, Name: p.name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking the API server whether it is allowed to %s: %w", p, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, p)
		}
	}
	return missing, nil
}
