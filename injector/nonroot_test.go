package injector

import (
	"strings"
	"testing"
)

func TestASidecarThatNeverStartsIsAWarning(t *testing.T) {
	for _, c := range []struct{ sidecar, pod, want string }{
		{"{runAsNonRoot: true}", `"runAsUser":0`, "template side: the container side never starts: runAsUser is 0 (of the pod) and runAsNonRoot is true (of the container)"},
		{"{runAsUser: 0}", `"runAsNonRoot":true`, "runAsUser is 0 (of the container) and runAsNonRoot is true (of the pod)"},
		{"{runAsUser: 0, runAsNonRoot: false}", `"runAsNonRoot":true`, ""},
		{"{runAsNonRoot: true}", `"runAsUser":1000`, ""},
	} {
		set := setOf(t, map[string]string{"side": `inject: {spec: {initContainers: [{name: side, image: "side:1", restartPolicy: Always, securityContext: ` + c.sidecar + `}]}}`})
		pod := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"pillion.dev/inject":"side"}},"spec":{"securityContext":{`+c.pod+`},"containers":[{"name":"web","image":"web:1"}]}}`)
		out := injectOnce(t, set, pod)
		if got := strings.Join(out.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s in a pod with %s: %q; want %q", c.sidecar, c.pod, got, c.want)
		}
	}
}
