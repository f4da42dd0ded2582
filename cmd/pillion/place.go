package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
)

// placeFlags adds the flags that say where Pillion is.
func placeFlags(f *pflag.FlagSet, p *inspect.Place) {
	f.StringVar(&p.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	f.StringVar(&p.Context, "context", "", contextUsage)
	f.StringVar(&p.Namespace, "pillion-namespace", injector.DefaultNamespace, "Pillion's own namespace")
	f.StringVar(&p.Selector, "pillion-selector", "", "label selector of Pillion's Deployment and pods, where its namespace has two releases")
}

// replicaFlag adds the flag of commands that ask replicas.
func replicaFlag(f *pflag.FlagSet, p *inspect.Place) {
	f.StringSliceVar(&p.URLs, "replica", nil, "URL of a replica's admin port, to ask instead of the pods (repeatable)")
}

// openCluster returns the cluster that the flags name.
func openCluster(p inspect.Place) (*inspect.Cluster, error) {
	config, err := clusterConfig(p.Kubeconfig, p.Context)
	if err != nil {
		return nil, err
	}
	return inspect.Open(config, p, served)
}

// openLive returns the cluster with the settings of the server there. Prefix is for a user who may
// not read them. Namespace is the workload's, "" for the context's.
func openLive(cmd *cobra.Command, p inspect.Place, prefix, namespace string) (*inspect.Live, error) {
	c, err := openCluster(p)
	if err != nil {
		return nil, err
	}
	if namespace == "" {
		if namespace, _, err = kubeconfigOf(p.Kubeconfig, p.Context).Namespace(); err != nil {
			return nil, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	l, err := c.Live(cmd.Context(), prefix)
	if err != nil {
		return nil, err
	}
	l.Fallback = namespace
	return l, nil
}

// served reads what the server in a container is told: its arguments, and the variables PILLION_*
// that say what they leave open.
func served(c corev1.Container) (inspect.Served, error) {
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true // of another version
	f.Usage = func() {}
	serveFlags(f)
	if err := f.Parse(c.Args[1:]); err != nil {
		return inspect.Served{}, err
	}
	v := viper.New()
	if err := v.BindPFlags(f); err != nil {
		return inspect.Served{}, err
	}
	for _, e := range c.Env {
		setting, ok := strings.CutPrefix(e.Name, "PILLION_")
		setting = strings.ReplaceAll(strings.ToLower(setting), "_", "-")
		if flag := f.Lookup(setting); ok && flag != nil && !flag.Changed && e.ValueFrom == nil {
			v.Set(setting, e.Value)
		}
	}
	return servedBy(readConfig(v), v.GetString("config")), nil
}

// servedBy returns the settings of a server for those who look at it.
func servedBy(c serveConfig, config string) inspect.Served {
	s := inspect.Served{
		Config: config, Values: c.Values, Library: c.Library, Templates: c.Templates, ForeignSidecars: c.ForeignSidecars, Enforcement: c.once(), Match: c.Match,
		Needs: check.Needs{
			CASecret: c.CASecret, ServingSecret: c.ServingSecret, CreateCASecret: c.CreateCASecret, UninstallMarker: c.UninstallMarker, InUse: c.InUseRecord,
			ReadWorkloads: c.ReadWorkloads, CountPods: c.CountEvery > 0, OwnerEvents: c.OwnerEvents, PreviewLimits: c.PreviewLimits,
			Settings: check.Settings{
				Service: c.Service, Prefix: c.AnnotationPrefix, Excluded: c.ExcludedNamespaces, All: c.WebhookScope == scopeAll,
				ClusterTemplates: c.ClusterTemplates, NamespacedTemplates: c.NamespacedTemplates, KeepRequired: c.KeepRequiredLabel, Mutating: c.WebhookConfigurations, Validating: c.ValidatingWebhookConfigurations,
				Provider: c.Provider, Publishes: c.Provider == selfSigned || c.PublishCA, LeafDuration: c.LeafDuration, MirrorPolicy: c.MirrorPolicy, Match: c.Match,
			},
		},
	}
	if c.proves() {
		s.ProofNamespace = c.ProofNamespace
	}
	_, text, _ := net.SplitHostPort(c.AdminListen)
	if port, err := strconv.Atoi(text); err == nil && port != defaultAdminPort {
		s.AdminPort = port
	}
	return s
}
