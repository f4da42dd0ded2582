package templates

import (
	"slices"
	"strings"
	"testing"
)

func TestAPlaceOfThePodTellsWhichParametersDecideIt(t *testing.T) {
	tmpl := compiled(t, `
parameters:
- {name: image, type: image, default: "proxy:1"}
- {name: memory, type: quantity, default: 64Mi}
- {name: port, type: integer, default: 8080}
- {name: level, type: string, default: info, setBy: []}
- {name: extra, type: list, items: string, default: ""}
variables:
- {name: half, expression: "quantity(params.memory).add(quantity('1Mi')).isGreaterThan(quantity('1Gi')) ? '1Gi' : string(params.port)"}
inject:
  metadata: {labels: {a: "${params.level}", "${params.image}": x}}
  spec:
    terminationGracePeriodSeconds: {$onConflict: KeepPod, value: "${params.port}"}
    volumes: [{name: logs, emptyDir: {}}]
    initContainers:
    - name: side
      restartPolicy: Always
      image: ${params.image}
      resources: {limits: {memory: "${params.memory}", cpu: 100m}}
      ports: [{containerPort: "${params.port}"}]
      env:
      - {name: HALF, value: "${variables.half}"}
      - {$for: "e in params.extra", name: "${e}", value: "${e}"}
    - {$if: "params.level == 'debug'", name: "${'other-' + pod.metadata.name}", image: "x:1"}
    containers:
    - $each: App
      volumeMounts: [{name: logs, mountPath: /logs}, {name: theirs, mountPath: "/x/${container.name}"}]`)
	for at, want := range map[string]struct {
		params string
		fixed  bool
	}{
		"spec initContainers side name":                                 {"", true},
		"spec initContainers side image":                                {"image", false},
		"spec initContainers side resources":                            {"memory", false},
		"spec initContainers side resources limits cpu":                 {"", true},
		"spec initContainers side resources limits memory":              {"memory", false},
		"spec initContainers side ports 8080 containerPort":             {"port", false},
		"spec initContainers side env HALF value":                       {"memory port", false},
		"spec initContainers side env A name":                           {"extra", false},
		"spec initContainers other-web name":                            {"", false},
		"spec containers app volumeMounts /logs name":                   {"", true},
		"spec containers app volumeMounts /x/app name":                  {"", true},
		"spec containers app volumeMounts /x/app mountPath":             {"", false},
		"metadata labels a":                                             {"level", false},
		"metadata labels":                                               {"image level", false},
		"spec terminationGracePeriodSeconds":                            {"port", false},
		"spec initContainers side ports * containerPort":                {"port", false},
		"spec resources requests memory":                                {"", false},
		"spec initContainers side resources limits memory and a deeper": {"memory", false},
	} {
		got := tmpl.At(strings.Fields(at))
		var names []string
		for _, p := range got.Parameters {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if strings.Join(names, " ") != want.params || got.Fixed != want.fixed {
			t.Errorf("%s: parameters %v, fixed %t; want %s, %t", at, names, got.Fixed, want.params, want.fixed)
		}
	}
}
