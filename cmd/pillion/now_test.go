package main

import (
	"strings"
	"testing"
)

// The time is an input: the same file gives the same answer on every day.
func TestWhatIsExceptedDependsOnTheTimeThatIsGiven(t *testing.T) {
	files := map[string]string{
		"audit.yaml": `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  required: true
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  exceptions: [{name: legacy, podSelector: {matchLabels: {app: batch}}, until: "2027-03-31T00:00:00Z", reason: "OPS-1: moves in March"}]
  inject: {spec: {initContainers: [{name: audit, image: "audit:1", restartPolicy: Always}]}}
`,
		"namespace.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}\n",
		"pod.yaml":       "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: batch}}, spec: {containers: [{name: web, image: web}]}}\n",
	}
	const before, after = "--now=2027-03-30T23:59:59Z", "--now=2027-03-31T01:00:00+01:00"
	pod := []string{"-f", "DIR/pod.yaml", "--namespace-file=DIR/namespace.yaml", "--library=fluent-bit", "--templates=DIR/audit.yaml"}
	for _, c := range []struct {
		args []string
		code int
		// says is what is printed, or what is not where it begins with "!".
		says []string
	}{
		{append([]string{"inject", before}, pod...), exitDone, []string{"warning: Pod/web: Excepted: without audit: it is required here, and the pod is excepted until 2027-03-31T00:00:00Z by the exception legacy: OPS-1: moves in March", "!image: audit:1"}},
		{append([]string{"inject", after}, pod...), exitDone, []string{"image: audit:1", "!xcepted"}},
		{append([]string{"explain", before}, pod...), exitDone, []string{"Excepted", "until 2027-03-31T00:00:00Z by the exception legacy"}},
		{append([]string{"explain", after}, pod...), exitDone, []string{"it was excepted until 2027-03-31T00:00:00Z by the exception legacy"}},
		{[]string{"lint", before, "DIR/audit.yaml"}, exitDone, []string{"![exception-ended]"}},
		{[]string{"lint", after, "DIR/audit.yaml"}, exitDone, []string{"the exception legacy has ended", "[exception-ended]"}},
		{append([]string{"inject", "--now=tomorrow"}, pod...), exitUsage, []string{"--now", "invalid time format `tomorrow`"}},
	} {
		code, out, errs := call(t, "", files, c.args...)
		if code != c.code {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, out, errs)
		}
		for _, says := range c.says {
			not, without := strings.CutPrefix(says, "!")
			if strings.Contains(strings.Join(strings.Fields(out+errs), " "), not) == without {
				t.Errorf("%q: %q\n%s%s", c.args, says, out, errs)
			}
		}
	}
}
