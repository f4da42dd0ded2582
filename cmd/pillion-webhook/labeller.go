package main

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// newLabeller returns the controller of the labels of namespaces. An event on the namespace reports a label that
// cannot be written.
func (r *replica) newLabeller(prover *proof.Prover) *labels.Controller {
	rules := r.settings.Labels()
	writer := labels.Writer{Client: r.unlimited, Rules: rules}
	c := labels.New(labels.Options{
		Rules: rules, Proven: prover.Proven, Templates: r.set.Snapshot, Namespaces: r.namespaces.AllWithOwners, Namespace: r.namespaces.GetWithOwners,
		Ready: r.loaded, Logger: r.logger("labels"), PutOn: writer.PutOn, TakeOff: writer.TakeOff,
		ReportFailure: func(namespace, label string, err error) {
			r.recorder.Record(events.Event{Namespace: namespace, Code: reason.LabelNotWritten, Message: labelNotWritten(namespace, label, err)})
		},
	})
	r.set.OnChange(func(*templates.Set) { c.Changed() })
	r.namespaces.OnChange(c.NamespaceChanged)
	if r.namespaced != nil {
		r.namespaced.OnChange(c.NamespaceChanged)
	}
	prover.OnChange(c.Changed)
	r.registry.MustRegister(c)
	return c
}

// labelNotWritten returns the message about a label that Pillion cannot write.
func labelNotWritten(namespace, label string, err error) string {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Sprintf("Pillion cannot write the label %s and keeps trying: %v. If the namespace is too large, remove labels and annotations that it does not need: kubectl label namespace %s KEY-", label, err, namespace)
	}
	return fmt.Sprintf("Pillion cannot change the label %s, because another field manager owns it: %v. With the right to update namespaces/injection, remove it: kubectl label namespace %s %s-", label, err, namespace, label)
}
