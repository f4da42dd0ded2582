package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/canary"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// stopCanaries makes what stops canaries of templates that fail. Where pods are not to be read, only
// refusals count.
func (r *replica) stopCanaries() {
	c, set := r.c, r.set
	o := canary.Options{
		StatusKey: templates.StatusKey(c.Prefix), Templates: set.Snapshot, Object: set.Object, StopHere: set.StopHere,
		Namespace: r.namespaces.Cached, Calls: c.Registration().Calls, Refusals: r.refusals, Rules: canary.DefaultRules, Ready: r.mayWrite, Logger: r.logger("canaries"),
		Stopped: func(o store.Object, message string) {
			r.recorder.Record(events.Event{Code: reason.CanaryStopped, Message: message, About: corev1.ObjectReference{
				APIVersion: c.Prefix + "/" + v1alpha1.Version, Kind: v1alpha1.Kind, Name: o.Name, UID: o.UID,
			}})
		},
	}
	own := rest.CopyConfig(r.config)
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
	r.registry.MustRegister(watcher)
	r.run(watcher.Run)
}
