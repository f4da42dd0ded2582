package certs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/waiting"
)

// permissionInterval is how often the permissions are checked while the source runs. A
// lost permission that is rarely used would otherwise be noticed only when it is used.
const permissionInterval = 2 * time.Minute

// permissions checks that the process has the rights that its provider needs.
type permissions struct {
	client   kubernetes.Interface
	needed   []permission
	problems *problems
	log      *slog.Logger
}

// await returns true as soon as no permission is missing, or false when ctx ends first.
// Until then the missing permissions are the problem of [subjectStart].
func (p *permissions) await(ctx context.Context) bool {
	for {
		missing, err := p.missing(ctx)
		if len(missing) > 0 {
			err = missingError(missing...)
		}
		p.problems.record(subjectStart, failedPermission, err)
		if err == nil {
			return true
		}
		if !waiting.For(ctx, checkInterval) {
			return false
		}
	}
}

// watch checks the permissions every permissionInterval until ctx ends. Each missing
// permission is a problem of its own, and costs no readiness: the served leaf stays
// served.
func (p *permissions) watch(ctx context.Context) {
	for waiting.For(ctx, permissionInterval) {
		missing, err := p.missing(ctx)
		if err != nil {
			p.log.Debug("checking the permissions failed", "error", err)
			continue
		}
		for _, needed := range p.needed {
			var err error
			if slices.Contains(missing, needed) {
				err = missingError(needed)
			}
			p.problems.record(needed.Right.String(), failedPermission, err)
		}
	}
}

// missing asks the API server which permissions the process does not have. The error
// says that the question failed.
func (p *permissions) missing(ctx context.Context) ([]permission, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var missing []permission
	for _, needed := range p.needed {
		review, err := p.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: needed.Attributes()},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking the API server for the permission to %s: %w", needed.Right, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, needed)
		}
	}
	return missing, nil
}

// explain adds the missing permission to the error of a request that the API server
// refused as forbidden. Other errors are returned as they are.
func (p *permissions) explain(err error, verb, resource, name string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	for _, needed := range p.needed {
		if needed.Verb == verb && needed.Resource == resource && (needed.Name == name || needed.Name == "") {
			return fmt.Errorf("%w: %w", missingError(needed), err)
		}
	}
	return err
}

// permission is a right that the process must have.
type permission struct {
	rights.Right

	// value is the chart's value that grants it.
	value string
}

// String names the right, and the chart's values that grant it.
func (p permission) String() string {
	return fmt.Sprintf("%s (the chart grants it with %s)", p.Right, p.value)
}

// secretPermissions returns the permissions for one Secret. value is the chart's value
// that names the Secret.
func secretPermissions(namespace, name, value string, verbs ...string) []permission {
	var list []permission
	for _, verb := range verbs {
		p := permission{rights.Right{Verb: verb, Resource: "secrets", Namespace: namespace, Name: name}, value}
		if verb == "create" {
			p.Name = "" // authorization does not see the name of an object that is created
		}
		list = append(list, p)
	}
	return list
}

// configurationPermissions returns the permissions for the webhook configurations.
// provider is the chart's value that chooses the provider.
func configurationPermissions(configurations []WebhookConfiguration, provider string, verbs ...string) []permission {
	var list []permission
	for _, c := range configurations {
		for _, verb := range verbs {
			list = append(list, permission{rights.Right{Verb: verb, Group: "admissionregistration.k8s.io", Resource: c.Kind.resource(), Name: c.Name}, "webhook.name=" + c.Name + " and " + provider})
		}
	}
	return list
}

// missingError names the missing permissions.
func missingError(list ...permission) error {
	var names []string
	for _, p := range list {
		names = append(names, p.String())
	}
	return fmt.Errorf("missing permission: %s", strings.Join(names, "; "))
}
