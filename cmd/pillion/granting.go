package main

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/clientset/rights"
	"github.com/pillion-dev/pillion/offline/explain"
)

// granting adds to an error about a right that the user lacks the commands that grant the
// right. Other errors stay as they are.
func granting(err error) error {
	var missing *rights.MissingError
	if errors.As(err, &missing) {
		return err
	}
	err = rights.Named(err)
	if errors.As(err, &missing) && missing.Resource == "pods" && missing.Namespace == "" {
		missing.Hint = "For one namespace: pillion status ns/NAME."
	}
	return err
}

// lacking returns a note: what follows from an error, and which right is missing, with the
// commands that grant it. Of another error it has the text.
func lacking(says string, err error) explain.Note {
	err = rights.Named(err)
	var missing *rights.MissingError
	if errors.As(err, &missing) {
		return explain.Note{Says: says + missing.Says(), Remedy: missing.Commands()}
	}
	return explain.Note{Says: says + err.Error()}
}

// deniedTo returns the flag by which kubectl's create rolebinding names the user who lacks a
// right.
func deniedTo(err error) string {
	var missing *rights.MissingError
	if errors.As(rights.Named(err), &missing) {
		return rights.Subject(missing.User)
	}
	return rights.Subject("")
}

// lacksRight reports whether an error is about a right that the user lacks.
func lacksRight(err error) bool {
	var missing *rights.MissingError
	return errors.As(rights.Named(err), &missing)
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
