package lint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
)

const served = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: t}
spec:
  inject:
    spec:
      hostUsers: false
      initContainers:
      - {name: s, image: 's:1', restartPolicy: Always, resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {memory: 1Mi}}}
`

// askedOf returns what lint says of the rule server, where an API server answers so to a pod's spec. The
// sidecar is in it, unless the API server is asked about the sample alone.
func askedOf(t *testing.T, answer func(spec map[string]any) error, own ...samples.Sample) []string {
	t.Helper()
	documents, options := []lint.Document{{Source: "t.yaml", Document: templates.ParseFile([]byte(served))[0]}}, lint.Options{Samples: own}
	results := lint.Run(documents, options)
	lint.Validate(t.Context(), oracle.Oracle{Create: func(_ context.Context, pod map[string]any) error {
		return answer(pod["spec"].(map[string]any))
	}}, documents, results, options)
	var found []string
	for _, f := range results[0].Findings {
		if f.Rule == "server" {
			found = append(found, f.String())
		}
	}
	return found
}

func TestWhatTheAPIServerSaysIsAFinding(t *testing.T) {
	hostUsers := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Invalid(field.NewPath("spec", "hostUsers"), false, "no")})
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(why))
	}
	mine := samples.Sample{Name: "Pod/mine of f.yaml", Pod: map[string]any{"spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "a", "image": "a"}}}}}
	const place = ": t.yaml:7: template t: spec.inject.spec.hostUsers: "
	for name, c := range map[string]struct {
		answer func(spec map[string]any) error
		want   []string
	}{
		"nothing": {func(map[string]any) error { return nil }, nil},
		"every pod is invalid": {func(spec map[string]any) error {
			if spec["hostUsers"] != nil {
				return hostUsers
			}
			return nil
		}, []string{"error" + place + "Invalid value: false: no [server]"}},
		"one bundled pod is": {func(spec map[string]any) error {
			if spec["hostNetwork"] == true {
				return hostUsers
			}
			return nil
		}, []string{"warning" + place + "for the pod host-network: Invalid value: false: no [server]"}},
		"the author's own is": {func(spec map[string]any) error {
			if spec["nodeName"] != nil {
				return hostUsers
			}
			return nil
		}, []string{"error" + place + "for the pod Pod/mine of f.yaml: Invalid value: false: no [server]"}},
		"a quota for the author's own": {func(spec map[string]any) error {
			if spec["nodeName"] != nil {
				return forbidden("exceeded quota: q")
			}
			return nil
		}, []string{"error: t.yaml: template t: for the pod Pod/mine of f.yaml: pods \"p\" is forbidden: exceeded quota: q [server]"}},
		"Pod Security": {func(map[string]any) error { return forbidden("violates PodSecurity x") }, []string{
			"error: t.yaml: template t: for the pod Pod/mine of f.yaml: pods \"p\" is forbidden: violates PodSecurity x [server]",
			"warning: t.yaml: template t: for the pod restricted: pods \"p\" is forbidden: violates PodSecurity x [server]",
		}},
		"no right": {func(map[string]any) error { return forbidden("no right") }, []string{"error: t.yaml: template t: the API server did not say whether pods are valid: pods \"p\" is forbidden: no right [server]"}},
	} {
		got := askedOf(t, c.answer, mine)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
