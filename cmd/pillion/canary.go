package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/canary"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// newCanaries returns what stops canaries of templates that fail, and registers its metrics. Where
// pods are not to be read, only refusals count.
func newCanaries(c serveConfig, config *rest.Config, set *store.Templates, ns *namespaces.Informer, refusals *canary.Refusals, record func(events.Event), ready func() error, registry prometheus.Registerer, log *slog.Logger) func(context.Context) error {
	o := canary.Options{
		StatusKey: templates.StatusKey(c.Prefix), Templates: set.Snapshot, Object: set.Object, StopHere: set.StopHere,
		Namespace: ns.Cached, Calls: c.Registration().Calls, Refusals: refusals, Rules: canary.DefaultRules, Ready: ready, Logger: log,
		Stopped: func(o store.Object, message string) {
			record(events.Event{Code: reason.CanaryStopped, Message: message, About: corev1.ObjectReference{
				APIVersion: c.Prefix + "/" + v1alpha1.Version, Kind: v1alpha1.Kind, Name: o.Name, UID: o.UID,
			}})
		},
	}
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = listsPerSecond, listsPerSecond
	if c.CountEvery != 0 {
		o.List = clientset.PodList(clientset.NewOrDie(own))
	}
	if c.ClusterTemplates {
		resource := dynamic.NewForConfigOrDie(own).Resource(schema.GroupVersionResource{Group: c.Prefix, Version: v1alpha1.Version, Resource: store.Resource})
		o.Write = func(ctx context.Context, name string, patch []byte) error {
			_, err := resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pillion"}, "status")
			return err
		}
	}
	watcher := canary.New(o)
	registry.MustRegister(watcher)
	return watcher.Run
}
