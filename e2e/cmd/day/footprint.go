package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// filled waits until every replica has all templates, and pods can be created in all namespaces.
func filled(ctx context.Context, cluster *measure.Cluster, f measure.Filling) error {
	return measure.Within(ctx, 20*time.Minute, func() error {
		for _, r := range cluster.Replicas(ground.Namespace) {
			if n, err := measure.Metric(ctx, r, "pillion_template_info"); err != nil || int(n) < f.Templates {
				return fmt.Errorf("%v templates are in force in %s (%w), want %d", n, r.Name, err, f.Templates)
			}
		}
		defer func() { time.Sleep(2 * time.Second) }() // the answer is large
		accounts, err := cluster.Client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
		if err == nil && len(accounts.Items) < f.Namespaces {
			err = fmt.Errorf("%d of %d namespaces have their service account", len(accounts.Items), f.Namespaces)
		}
		return err
	})
}

// A footprint is what there is in the cluster.
type footprint struct {
	events   int     // that Pillion wrote
	requests int     // of Pillion, as kube-apiserver's audit log has them
	etcd     float64 // bytes of etcd's file
}

func footprintOf(ctx context.Context, cluster *measure.Cluster) (footprint, error) {
	var f footprint
	events, err := cluster.Client.EventsV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, err
	}
	for _, e := range events.Items {
		if e.ReportingController == "pillion" {
			f.events++
		}
	}
	metrics, err := cluster.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return f, err
	}
	if f.etcd, err = measure.Sum(bytes.NewReader(metrics), "apiserver_storage_size_bytes"); err == nil && f.etcd == 0 {
		err = errors.New("kube-apiserver does not say how large etcd's file is")
	}
	if err != nil {
		return f, err
	}
	// kube-apiserver begins a new audit log when one has 100 MB.
	logs, err := filepath.Glob(cluster.AuditLog() + "*")
	if err != nil {
		return f, err
	}
	for _, log := range logs {
		lines, err := os.ReadFile(log)
		if err != nil {
			return f, err
		}
		f.requests += bytes.Count(lines, []byte(`"user":{"username":"system:serviceaccount:`+ground.Namespace+`:`+ground.Release+`"`))
	}
	return f, nil
}
