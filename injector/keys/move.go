package keys

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Move returns the kubectl command that moves annotations from a workload's own metadata to its pods,
// with no right but that to patch the workload. It returns "" if none is in the wrong place, and for a
// Job, whose pod template cannot be changed.
func Move(kind, namespace, name string, findings []Finding) string {
	away, to := map[string]any{}, map[string]any{}
	for _, f := range findings {
		if f.OnWorkload {
			away[f.Key], to[f.Key] = nil, f.Value
		}
	}
	patch := map[string]any{"metadata": map[string]any{"annotations": away}}
	err := unstructured.SetNestedMap(patch, to, append(owner.TemplatePath(kind), "metadata", "annotations")...)
	if kind == "Job" || name == "" || len(to) == 0 || err != nil {
		return ""
	}
	command := "kubectl"
	if namespace != "" {
		command += " -n " + namespace
	}
	text := strings.ReplaceAll(string(podschema.Encode(patch)), "'", `'\''`)
	return fmt.Sprintf("%s patch %s %s --type=merge -p '%s'", command, strings.ToLower(kind), name, text)
}
