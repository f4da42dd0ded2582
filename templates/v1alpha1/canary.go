package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stopped is the type of the condition of a canary that selects nobody any more.
const Stopped = "Stopped"

// IsStopped reports whether the status says that the canary of a generation is stopped. What it
// says of an earlier generation does not count: editing a canary starts it anew.
func (s SidecarTemplateStatus) IsStopped(generation int64) bool {
	c := meta.FindStatusCondition(s.Conditions, Stopped)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}
