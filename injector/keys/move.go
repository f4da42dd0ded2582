package keys

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pillion-dev/pillion/injector/owner"
)

// Move returns the kubectl command that moves annotations from a workload's own metadata to
// its pods. It returns "" if none is in the wrong place, and for a Job, whose pod template
// cannot be changed. What the pods say themselves it leaves alone. The command needs no right but that to patch the workload.
func Move(kind, namespace, name string, findings []Finding) string {
	if kind == "Job" || name == "" {
		return ""
	}
	away, to := map[string]any{}, map[string]any{}
	for _, f := range findings {
		if f.Mistake == OnWorkload && f.Instead != "" {
			away[f.Key], to[f.Key] = nil, f.Value
		}
	}
	if len(to) == 0 {
		return ""
	}
	var patch any = map[string]any{"metadata": map[string]any{"annotations": to}}
	path := owner.TemplatePath(kind)
	for i := len(path) - 1; i >= 0; i-- {
		patch = map[string]any{path[i]: patch}
	}
	patch.(map[string]any)["metadata"] = map[string]any{"annotations": away}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(patch); err != nil {
		return "" // texts are always encoded
	}
	command := []string{"kubectl"}
	if namespace != "" {
		command = append(command, "-n", namespace)
	}
	return strings.Join(append(command, "patch", strings.ToLower(kind), name, "--type=merge", "-p", quoted(strings.TrimSpace(text.String()))), " ")
}

// quoted returns a text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
