package manifests

import (
	"fmt"
	"io"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
)

// Namespaces reads the namespaces of --namespace-file, and those among the objects that come with the pods.
func (o *Options) Namespaces(stdin io.Reader) (inspect.Namespaces, error) {
	var objects []map[string]any
	for _, object := range o.Objects {
		if object["kind"] == "Namespace" {
			objects = append(objects, object)
		}
	}
	if o.NamespaceFile == "" {
		return inspect.FileNamespaces(objects, o.Namespace)
	}
	data, err := ReadFile(stdin, o.NamespaceFile)
	if err != nil {
		return inspect.Namespaces{}, err
	}
	documents, err := workload.Parse(data)
	var namespaces inspect.Namespaces
	if err == nil {
		for _, d := range documents {
			objects = append(objects, workload.Items(d.Object)...)
		}
		namespaces, err = inspect.FileNamespaces(objects, o.Namespace)
	}
	if err != nil {
		return namespaces, fmt.Errorf("reading namespaces from %s: %w", o.NamespaceFile, err)
	}
	return namespaces, nil
}
