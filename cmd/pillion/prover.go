package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/templates"
)

// newProver returns the prover of the settings, or nil if they want none. Ready is about the
// whole replica.
func newProver(c serveConfig, config *rest.Config, ns *namespaces.Informer, ready func() error, log *slog.Logger) *proof.Prover {
	if !c.proves() {
		return nil
	}
	// Any of several API servers may fail to call Pillion. Warnings about the proof's pod are for nobody.
	config = clientset.ConnectingAnew(config)
	config.WarningHandler = rest.NoWarnings{}
	client := clientset.NewOrDie(config)
	return proof.New(proof.Options{
		Prefix: c.Prefix, Namespace: c.ProofNamespace, Ready: ready, Verifies: c.KeepRequired, TakeBackAfter: c.TakeBackAfter, Logger: log,
		Timeout: c.ReviewTimeout + 5*time.Second,
		Create: func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			return client.CoreV1().Pods(c.ProofNamespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		},
		Exists: func() bool { _, ok := ns.Cached(c.ProofNamespace); return ok },
	})
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

// enforcing returns the function that says whether Pillion enforces what asks. The prover may
// be nil.
func (c serveConfig) enforcing(prover *proof.Prover) func() proof.Enforcement {
	if prover == nil { // by hand only: what another setting enforced is taken back
		return func() proof.Enforcement {
			return proof.Enforcement{TakeBack: c.Enforcement == enforcementManual}
		}
	}
	return prover.Enforcement
}
