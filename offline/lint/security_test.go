package lint_test

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
)

func TestContainerSecurityIsComparedWithWhatTheTemplateSaysItself(t *testing.T) {
	of := func(security string) []string {
		manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec:\n  containerSecurity: Restricted\n" +
			"  inject: {spec: {initContainers: [{name: s, image: 's:1', restartPolicy: Always, resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {memory: 1Mi}}" + security + "}]}}\n"
		var found []string
		for _, r := range lint.Run([]lint.Document{{Source: "t.yaml", Document: templates.ParseFile([]byte(manifest))[0]}}, lint.Options{}) {
			for _, f := range r.Findings {
				if f.Rule == "pod-security" {
					found = append(found, string(f.Severity)+": "+f.Message)
				}
			}
		}
		return found
	}
	const plain = "note: a restricted pod stays restricted by the Pod Security Standards"
	if got := of(""); len(got) != 1 || got[0] != plain {
		t.Errorf("a template that says nothing: %q", got)
	}
	const root = "warning: containerSecurity is Restricted, and by what the template says itself a restricted pod becomes baseline all the same; not restricted: "
	if got := of(", securityContext: {runAsUser: 0}"); len(got) != 1 || !strings.HasPrefix(got[0], root) || !strings.Contains(got[0], "runAsUser=0") {
		t.Errorf("a template that runs as root: %q", got)
	}
}
