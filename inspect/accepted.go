package inspect

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Unaccepted returns a line for each template whose pods the API server refuses, as the template's status
// says: of the cluster, and of the namespace that the target names. Templates that cannot be read have
// none.
func (l *Live) Unaccepted(ctx context.Context, of Target) []string {
	list := func(resource schema.GroupVersionResource, namespace string) []unstructured.Unstructured {
		found, err := l.Objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		return found.Items
	}
	objects := list(store.Resource, "")
	if of.Namespace != "" {
		objects = append(objects, list(store.NamespacedResource, of.Namespace)...)
	}
	var lines []string
	for i := range objects {
		var read struct {
			Metadata metav1.ObjectMeta              `json:"metadata"`
			Status   v1alpha1.SidecarTemplateStatus `json:"status"`
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &read) != nil || of.Template != "" && of.Template != read.Metadata.Name {
			continue
		}
		c := meta.FindStatusCondition(read.Status.Conditions, store.Accepted)
		if c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == read.Metadata.Generation {
			lines = append(lines, "warning: "+strings.ReplaceAll(c.Message, "\n", "; "))
		}
	}
	return lines
}
