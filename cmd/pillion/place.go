package main

import (
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	corev1 "k8s.io/api/core/v1"

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
	f.StringVar(&p.Selector, "pillion-selector", "", "label selector of Pillion's Deployment and pods, where its namespace has two releases")
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
	return inspect.Open(config, p, served)
}

// served reads what the server in a container is told: its arguments, and the variables PILLION_*
// that say what they leave open.
func served(container corev1.Container) (inspect.Served, error) {
	var c serveConfig
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true // of another version
	f.Usage = func() {}
	c.flags(f)
	if err := f.Parse(container.Args[1:]); err != nil {
		return c.Served, err
	}
	v := viper.New()
	if err := v.BindPFlags(f); err != nil {
		return c.Served, err
	}
	for _, e := range container.Env {
		setting, ok := strings.CutPrefix(e.Name, "PILLION_")
		setting = strings.ReplaceAll(strings.ToLower(setting), "_", "-")
		if flag := f.Lookup(setting); ok && flag != nil && !flag.Changed && e.ValueFrom == nil {
			v.Set(setting, e.Value)
		}
	}
	err := c.read(f, v)
	return c.Served, err
}
