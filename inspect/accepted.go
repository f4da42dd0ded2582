package inspect

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Unaccepted returns the templates of a resource and namespace whose newest spec API servers refuse: their condition
// Accepted is False. The namespace is "" for all.
func (c *Cluster) Unaccepted(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]Unaccepted, error) {
	// A malformed spec must not hide the status of other templates.
	type template struct {
		metav1.ObjectMeta `json:"metadata"`
		Status            v1alpha1.SidecarTemplateStatus `json:"status"`
	}
	list, err := List[template](ctx, c, resource, namespace, metav1.ListOptions{})
	var all []Unaccepted
	for _, t := range list {
		accepted := meta.FindStatusCondition(t.Status.Conditions, store.Accepted)
		if accepted != nil && accepted.Status == metav1.ConditionFalse && accepted.ObservedGeneration == t.Generation {
			all = append(all, Unaccepted{Namespace: t.Namespace, Name: t.Name, Message: accepted.Message})
		}
	}
	return all, err
}

// Unaccepted is a template whose pods API servers refuse.
type Unaccepted struct{ Namespace, Name, Message string }

// AcceptanceWarnings returns a line for each unaccepted template of the cluster and of the target's namespace. It ignores
// templates that it cannot read.
func (c *Cluster) AcceptanceWarnings(ctx context.Context, of Target) []string {
	all, _ := c.Unaccepted(ctx, store.Resource, "")
	if of.Namespace != "" {
		own, _ := c.Unaccepted(ctx, store.NamespacedResource, of.Namespace)
		all = append(all, own...)
	}
	var lines []string
	for _, t := range all {
		if of.Template == "" || of.Template == t.Name {
			lines = append(lines, "warning: "+strings.ReplaceAll(t.Message, "\n", "; "))
		}
	}
	return lines
}
