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

// prove makes the prover, if the settings want one.
func (r *replica) prove() {
	c := r.c
	if !c.proves() {
		return
	}
	// Any of several API servers may fail to call Pillion. Warnings about the proof's pod are for nobody.
	config := clientset.ConnectingAnew(r.config)
	config.WarningHandler = rest.NoWarnings{}
	client := clientset.NewOrDie(config)
	r.prover = proof.New(proof.Options{
		Prefix: c.Prefix, Namespace: c.ProofNamespace, Verifies: c.KeepRequired, TakeBackAfter: c.TakeBackAfter, Logger: r.logger("proof"),
		Ready:   func() error { return r.server.Ready() },
		Timeout: c.ReviewTimeout + 5*time.Second,
		Create: func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			return client.CoreV1().Pods(c.ProofNamespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		},
		Exists: func() bool { _, ok := r.namespaces.Cached(c.ProofNamespace); return ok },
	})
	r.run(r.prover.Run)
}

// withoutProof returns the set without the built-in templates of proofs, which are nobody's to
// look after. While somebody else's manifest has the name of one, it stays: its entry says so.
func withoutProof(set *templates.Set) *templates.Set {
	return templates.NewSet(slices.DeleteFunc(set.All(), func(e templates.Entry) bool {
		return e.Source == proofSource && e.Err == nil
	}))
}

// proofSource is how messages call the source of the built-in templates.
const proofSource = "proof template of Pillion itself"

// enforcement says whether Pillion enforces what asks.
func (r *replica) enforcement() proof.Enforcement {
	if r.prover == nil { // by hand only: what another setting enforced is taken back
		return proof.Enforcement{TakeBack: r.c.Enforcement == enforcementManual}
	}
	return r.prover.Enforcement()
}
