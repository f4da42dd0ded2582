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

// newProver returns the prover. It proves nothing where the settings want no proof.
func (r *replica) newProver() *proof.Prover {
	s := r.settings
	// Any of several API servers may fail to call Pillion, so each try has a new connection.
	config := clientset.WithoutKeepAlives(r.config)
	config.WarningHandler = rest.NoWarnings{}
	client := clientset.NewOrDie(config)
	prover := proof.New(proof.Options{
		Namespace: s.Namespaces.Proof, Logger: r.logger("proof"),
		Ready:   func() error { return r.server.Ready() },
		Timeout: s.Reviews.Timeout + 5*time.Second,
		Create: func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			return client.CoreV1().Pods(s.Namespaces.Proof).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		},
	})
	if s.Proves() {
		r.run(prover.Run)
	}
	return prover
}

// withoutProof returns the set without the built-in template of proofs, which no metric shows.
func withoutProof(set *templates.Set) *templates.Set {
	return templates.NewSet(slices.DeleteFunc(set.All(), func(e templates.Entry) bool { return e.Name == proof.Template }))
}
