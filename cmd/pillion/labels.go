package main

import (
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
)

// newLabelController returns the controller of the labels. It hears of changes of templates and
// namespaces, and tells held of labels that it cannot write because of their owner.
func newLabelController(rules labels.Rules, enforcement func() proof.Enforcement, held func(namespace, label string, err error), writer metadata.Interface, set *store.Templates, ns *namespaces.Informer, ready func() error, log *slog.Logger) *labels.Controller {
	c := labels.New(labels.Options{
		Rules: rules, Enforcement: enforcement, Templates: set.Snapshot, Namespaces: ns.AllLabelled, Namespace: ns.Labelled, Ready: ready, Logger: log,
		Write: labels.Writer{Client: writer, Rules: rules}.Write, Held: held,
	})
	set.OnChange(func(*templates.Set) { c.Changed() })
	ns.OnChange(c.NamespaceChanged)
	return c
}

// labelHeld says what to do about a label that Pillion cannot write.
func labelHeld(namespace, label string, err error) string {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Sprintf("Pillion cannot write the label %s and keeps trying: %v. If the namespace is too large, remove labels and annotations that it does not need: kubectl label namespace %s KEY-", label, err, namespace)
	}
	return fmt.Sprintf("Pillion cannot change the label %s, because another field manager owns it: %v. With the right to update namespaces/injection, remove it: kubectl label namespace %s %s-", label, err, namespace, label)
}
