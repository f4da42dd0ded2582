package main

import (
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// canaryPlace says where a command finds canaries.
type canaryPlace struct {
	where  inspect.Place
	prefix string
}

func (p *canaryPlace) flags(f *pflag.FlagSet) {
	placeFlags(f, &p.where)
	f.StringVar(&p.prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of Pillion's annotations")
}

// client returns a client of the cluster's SidecarTemplates.
func (p *canaryPlace) client() (dynamic.ResourceInterface, error) {
	cluster, err := openCluster(p.where)
	if err != nil {
		return nil, err
	}
	return cluster.Objects.Resource(schema.GroupVersionResource{Group: p.prefix, Version: v1alpha1.Version, Resource: store.Resource}), nil
}

// canaryOf returns the name of the stable template, "" if the object is no canary.
func canaryOf(object *unstructured.Unstructured) string {
	of, _, _ := unstructured.NestedString(object.Object, "spec", "canary", "of")
	return of
}

func statusOf(object *unstructured.Unstructured) (v1alpha1.SidecarTemplateStatus, error) {
	var read v1alpha1.SidecarTemplate
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": object.Object["status"]}, &read)
	return read.Status, err
}
