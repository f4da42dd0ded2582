package main

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// label makes what keeps the labels of namespaces. Who looks after a namespace hears in an event of
// a label that cannot be written because of its owner.
func (r *replica) label() {
	rules := r.c.Labels()
	writer := labels.Writer{Client: r.unlimited, Rules: rules}
	c := labels.New(labels.Options{
		Rules: rules, Proven: r.prover.Proven, Templates: r.set.Snapshot, Namespaces: r.namespaces.AllWithOwners, Namespace: r.namespaces.GetWithOwners,
		Ready: r.loaded, Logger: r.logger("labels"), PutOn: writer.PutOn, TakeOff: writer.TakeOff,
		ReportFailure: func(namespace, label string, err error) {
			r.recorder.Record(events.Event{Namespace: namespace, Code: reason.LabelNotWritten, Message: labelHeld(namespace, label, err)})
		},
	})
	r.set.OnChange(func(*templates.Set) { c.Changed() })
	r.namespaces.OnChange(c.NamespaceChanged)
	if r.namespaced != nil {
		r.namespaced.OnChange(c.NamespaceChanged)
	}
	r.prover.OnChange(c.Changed)
	r.registry.MustRegister(c)
	r.run(r.leaving.until(c.Run))
}

// labelHeld says what to do about a label that Pillion cannot write.
func labelHeld(namespace, label string, err error) string {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Sprintf("Pillion cannot write the label %s and keeps trying: %v. If the namespace is too large, remove labels and annotations that it does not need: kubectl label namespace %s KEY-", label, err, namespace)
	}
	return fmt.Sprintf("Pillion cannot change the label %s, because another field manager owns it: %v. With the right to update namespaces/injection, remove it: kubectl label namespace %s %s-", label, err, namespace, label)
}
