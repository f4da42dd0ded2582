package main

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// settle is how long after it became ready Pillion is measured.
	settle = time.Minute
	// target is how many MiB of resident memory are allowed at rest, with 100 templates.
	target = 160.0
	mib    = 1 << 20
)

// atRest fills the cluster while no Pillion runs, starts one replica, and prints and returns the memory
// that it has in MiB. What is on its heap has garbage in it.
func atRest(ctx context.Context, cluster *measure.Cluster, f measure.Filling) (resident float64, err error) {
	if err := cluster.Scale(ctx, ground.Namespace, 0); err != nil {
		return 0, err
	}
	if err := cluster.Fill(ctx, f, os.Stdout); err != nil {
		return 0, err
	}
	if err := cluster.Scale(ctx, ground.Namespace, 1); err != nil {
		return 0, err
	}
	replica, err := cluster.Pillion()
	if err != nil {
		return 0, err
	}
	if err := inForce(ctx, replica, f.Templates); err != nil {
		return 0, err
	}
	if err := measure.Sleep(ctx, settle); err != nil {
		return 0, err
	}
	resident, heap, err := memoryOf(ctx, replica)
	if err == nil {
		fmt.Printf("IDLE namespaces=%d templates=%d rss_mb=%.1f heap_mb=%.1f target_mb=%g\n", f.Namespaces, f.Templates, resident, heap, target)
	}
	return resident, err
}

// inForce returns an error unless a replica has all templates: one that is not in force takes no memory.
func inForce(ctx context.Context, r ground.Replica, templates int) error {
	n, err := measure.Metric(ctx, r, "pillion_template_info")
	if err == nil && int(n) != templates {
		err = fmt.Errorf("%v templates are in force in %s, want %d; its log is %s", n, r.Name, templates, r.Log)
	}
	return err
}

// memoryOf returns what a replica has in memory, and on its heap, in MiB.
func memoryOf(ctx context.Context, r ground.Replica) (resident, heap float64, err error) {
	heap, err = measure.Metric(ctx, r, "go_memstats_heap_alloc_bytes")
	if err != nil {
		return 0, 0, err
	}
	u, err := measure.UsageOf(r.PID)
	return float64(u.Resident) / mib, heap / mib, err
}

// filled waits until every replica has all templates, pods can be created in all namespaces, and
// API servers call Pillion for them.
func filled(ctx context.Context, cluster *measure.Cluster, f measure.Filling) error {
	return measure.Within(ctx, 20*time.Minute, func() error {
		for _, r := range cluster.Replicas(ground.Namespace) {
			if err := inForce(ctx, r, f.Templates); err != nil {
				return err
			}
		}
		defer func() { time.Sleep(2 * time.Second) }() // the answers are large
		accounts, err := cluster.Client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
		if err != nil {
			return err
		}
		called, err := cluster.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.InjectionLabel})
		if err != nil {
			return err
		}
		if min(len(accounts.Items), len(called.Items)) < f.Namespaces {
			return fmt.Errorf("of %d namespaces, %d have their service account and %d their label", f.Namespaces, len(accounts.Items), len(called.Items))
		}
		return nil
	})
}
