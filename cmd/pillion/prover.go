package main

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/templates"
)

// prove makes the prover. It has proven nothing, and never will, where the settings want no proof.
func (r *replica) prove() {
	c := r.c
	// Any of several API servers may fail to call Pillion. Warnings about the proof's pod are for nobody.
	config := clientset.WithoutKeepAlives(r.config)
	config.WarningHandler = rest.NoWarnings{}
	client := clientset.NewOrDie(config)
	r.prover = proof.New(proof.Options{
		Namespace: c.Namespaces.Proof, Logger: r.logger("proof"),
		Ready:   func() error { return r.server.Ready() },
		Timeout: c.Reviews.Timeout + 5*time.Second,
		Create: func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			return client.CoreV1().Pods(c.Namespaces.Proof).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		},
	})
	if c.Proves() {
		r.run(r.prover.Run)
	}
}

// withoutProof returns the set without the built-in template of proofs, which is nobody's to look after.
func withoutProof(set *templates.Set) *templates.Set {
	return templates.NewSet(slices.DeleteFunc(set.All(), func(e templates.Entry) bool { return e.Name == proof.Template }))
}
