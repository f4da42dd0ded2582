package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

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
