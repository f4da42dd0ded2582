package store

import (
	"context"
	"log/slog"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// NewNamespacedStatusWriter returns a writer for the NamespacedSidecarTemplates of an API group. Its
// client needs the verb patch on their subresource status.
func NewNamespacedStatusWriter(client metadata.Interface, group string, logger *slog.Logger) *StatusWriter {
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: v1alpha1.Version, Resource: NamespacedResource})
	w := newStatusWriter(func(ctx context.Context, key string, data []byte) error {
		namespace, name, _ := strings.Cut(key, "/")
		_, err := resource.Namespace(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, "status")
		return err
	}, logger)
	w.kind, w.resource, w.uncounted = v1alpha1.NamespacedKind, NamespacedResource, true
	return w
}
