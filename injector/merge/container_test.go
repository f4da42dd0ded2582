package merge_test

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// The author's fields win, image auto means the template's, and $position places the container all the same.
func TestAnAuthorMayDeclareAnOverridableSidecar(t *testing.T) {
	const side = "initContainers: [{name: side, image: 'side:1', restartPolicy: Always, args: [a], env: [{name: A, value: x}, {name: B, value: x}], livenessProbe: {httpGet: {port: 1}, periodSeconds: 3}%}]"
	for name, c := range map[string]struct{ declared, position, want string }{
		"nothing but the name": {"{name: side, image: auto}", "", `[{"image":"i:1","name":"first"},{"args":["a"],"env":[{"name":"A","value":"x"},{"name":"B","value":"x"}],"image":"side:1","livenessProbe":{"httpGet":{"port":1},"periodSeconds":3},"name":"side","restartPolicy":"Always"}]`},
		"fields": {"{name: side, image: 'mine:1', args: [b], env: [{name: B, value: mine}], livenessProbe: {exec: {command: [x]}}}", "",
			`[{"image":"i:1","name":"first"},{"args":["b"],"env":[{"name":"B","value":"mine"},{"name":"A","value":"x"}],"image":"mine:1","livenessProbe":{"exec":{"command":["x"]},"periodSeconds":3},"name":"side","restartPolicy":"Always"}]`},
		"placed first":    {"{name: side, image: auto, args: [b]}", ", $position: First", `[{"args":["b"],"env":[{"name":"A","value":"x"},{"name":"B","value":"x"}],"image":"side:1","livenessProbe":{"httpGet":{"port":1},"periodSeconds":3},"name":"side","restartPolicy":"Always"},{"image":"i:1","name":"first"}]`},
		"placed in front": {"{name: side, image: auto, args: [b]}", ", $position: {before: first}", `[{"args":["b"],"env":[{"name":"A","value":"x"},{"name":"B","value":"x"}],"image":"side:1","livenessProbe":{"httpGet":{"port":1},"periodSeconds":3},"name":"side","restartPolicy":"Always"},{"image":"i:1","name":"first"}]`},
	} {
		one := named("spec: {" + strings.Replace(side, "%", c.position, 1) + "}")
		one[0].Overridable = true
		o, err := inject(t, fragmenttest.Decode(t, "spec: {initContainers: [{name: first, image: 'i:1'}, "+c.declared+"], containers: []}"), one)
		if err != nil || len(o.warnings) > 0 || at(o.pod, "spec", "initContainers") != c.want {
			t.Errorf("%s: %v %q\n%s\nwant %s", name, err, o.warnings, at(o.pod, "spec", "initContainers"), c.want)
		}
		if strings.Contains(c.declared, "mine") != (len(o.kept) > 2) {
			t.Errorf("%s: kept %v", name, o.kept)
		}
	}
}

// A sidecar is one value. A container of the pod equals it if it runs the same program, and if merging the
// sidecar into it changes nothing. A copy of a pod without its record has such a container. Additions of
// others stay.
func TestACopyOfASidecarIsEqual(t *testing.T) {
	const side = "{name: s, image: 's:1', args: [a], restartPolicy: Always, env: [{name: A, value: x}]}"
	for declared, equal := range map[string]bool{
		side: true,
		"{name: s, image: 's:1', args: [a], restartPolicy: Always, env: [{name: A, value: x}, {name: ALL, value: z}], volumeMounts: [{name: v, mountPath: /v}], imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log}": true,
		"{name: s, image: 's:2', args: [a], restartPolicy: Always, env: [{name: A, value: x}]}":               false,
		"{name: s, image: 's:1', args: [a, b], restartPolicy: Always, env: [{name: A, value: x}]}":            false,
		"{name: s, image: 's:1', command: [c], args: [a], restartPolicy: Always, env: [{name: A, value: x}]}": false,
		"{name: s, image: 's:1', args: [a], env: [{name: A, value: x}]}":                                      false,
		"{name: s, image: 's:1', args: [a], restartPolicy: Always, env: [{name: A, value: other}]}":           false,
		"{name: s, image: 's:1', args: [a], restartPolicy: Always}":                                           false,
	} {
		o, err := inject(t, fragmenttest.Decode(t, "spec: {initContainers: ["+declared+"], containers: []}"), named("spec: {initContainers: ["+side+"]}", "spec: {containers: [{name: s, env: [{name: LATER, value: x}]}]}"))
		if (err == nil) != equal {
			t.Errorf("%s: %v", declared, err)
		}
		if equal && !strings.Contains(at(o.pod, "spec", "initContainers"), "LATER") {
			t.Errorf("%s: a later template does not reach it: %s", declared, at(o.pod, "spec", "initContainers"))
		}
	}
}

// Positions are those of the moment: First stands behind the First of earlier templates, and an anchor may be theirs.
func TestTheFirstOfALaterTemplateStandsBehindThoseOfEarlierOnes(t *testing.T) {
	o, err := inject(t, fragmenttest.Decode(t, "spec: {initContainers: [{name: own, image: o}], containers: []}"),
		named("spec: {initContainers: [{name: a, image: a, $position: First}]}", "spec: {initContainers: [{name: b, image: b, $position: First}, {name: c, image: c, $position: {before: a}}, {name: d, image: d, $position: {after: own}}]}"))
	if err != nil || len(o.warnings) > 0 {
		t.Fatal(err, o.warnings)
	}
	var names []string
	for _, c := range items(o.pod["spec"].(map[string]any), "initContainers") {
		names = append(names, c["name"].(string))
	}
	if got := strings.Join(names, " "); got != "c a b own d" {
		t.Error(got)
	}
}
