package main

import (
	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect"
)

// clusterFlags adds the flags that name a cluster.
func clusterFlags(f *pflag.FlagSet, p *inspect.Place) {
	f.StringVar(&p.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&p.Context, "context", "", "context of the kubeconfig (default: the current one)")
}

// placeFlags adds the flags that say where Pillion is.
func placeFlags(f *pflag.FlagSet, p *inspect.Place) {
	clusterFlags(f, p)
	f.StringVar(&p.Namespace, "pillion-namespace", injector.DefaultNamespace, "Pillion's own namespace")
}

// replicaFlag adds the flag of commands that ask replicas.
func replicaFlag(f *pflag.FlagSet, p *inspect.Place) {
	f.StringSliceVar(&p.URLs, "replica", nil, "URL of a replica's admin port, to ask instead of the pods (repeatable)")
}

// openCluster returns the cluster that the flags name.
func openCluster(p inspect.Place) (*inspect.Cluster, error) {
	config, err := clusterConfig(p)
	if err != nil {
		return nil, err
	}
	return inspect.Open(config, p)
}
