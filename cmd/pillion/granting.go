package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/clientset"
)

// denial is how API servers say who lacks which right.
var denial = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// granting adds to an error about a right that the user lacks the commands that grant the
// right. Other errors stay as they are.
func granting(err error) error {
	found := denial.FindStringSubmatch(fmt.Sprint(err))
	if !apierrors.IsForbidden(err) || found == nil {
		return err
	}
	user, verb, resource, group, namespace := found[1], found[2], found[3], found[4], found[5]
	to := "--user=" + user
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		to = "--serviceaccount=" + account
	}
	if group != "" {
		resource += "." + group
	}
	kind, where, flags, hint := "clusterrole", "in all namespaces", "", ""
	if namespace != "" {
		kind, where, flags = "role", "in namespace "+namespace, " -n "+namespace
	} else if resource == "pods" {
		hint = "For one namespace: pillion status ns/NAME. "
	}
	name := "pillion-" + verb + "-" + strings.ReplaceAll(found[3], "/", "-")
	return fmt.Errorf("missing permission: the verb %s on the resource %s %s. %sWho may grant it: kubectl%s create %s %s --verb=%s --resource=%s; kubectl%s create %sbinding %s --%s=%s %s: %w",
		verb, resource, where, hint, flags, kind, name, verb, resource, flags, kind, name, kind, name, to, err)
}

// permitted reports whether this process has a right.
func permitted(ctx context.Context, client clientset.Interface, to authorizationv1.ResourceAttributes) (bool, error) {
	review, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &to},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server for the permission to %s %s: %w", to.Verb, to.Resource, err)
	}
	return review.Status.Allowed, nil
}
