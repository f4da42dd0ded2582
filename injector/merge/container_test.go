package merge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

func TestAnItemWithoutAnImageExtendsTheContainerOfItsNameWhereverItStands(t *testing.T) {
	const pod = "spec: {initContainers: [{name: init, image: i}], containers: [{name: web, image: w}]}"
	for _, f := range []string{"spec: {containers: [{name: init, env: [{name: A}]}, {name: web, env: [{name: B}]}]}", "spec: {initContainers: [{name: init, env: [{name: A}]}, {name: web, env: [{name: B}]}]}"} {
		o, err := inject(t, fragmenttest.Decode(t, pod), named(f))
		if want := `{"containers":[{"env":[{"name":"B"}],"image":"w","name":"web"}],"initContainers":[{"env":[{"name":"A"}],"image":"i","name":"init"}]}`; err != nil || at(o.pod, "spec") != want {
			t.Errorf("%s: %v %s", f, err, at(o.pod, "spec"))
		}
	}
	// It extends the sidecar of an earlier template, too.
	o, err := inject(t, fragmenttest.Decode(t, pod), named("spec: {initContainers: [{name: s, image: s, env: [{name: A}]}]}", "spec: {containers: [{name: s, env: [{name: B, $position: First}], args: [x]}]}"))
	if want := `{"args":["x"],"env":[{"name":"B"},{"name":"A"}],"image":"s","name":"s"}`; err != nil || at(o.pod, "spec", "initContainers", "name=s") != want {
		t.Errorf("%v %s", err, at(o.pod, "spec", "initContainers"))
	}
	// No template extends an ephemeral container.
	_, err = mergeAll(t, fragmenttest.Decode(t, "spec: {containers: [], ephemeralContainers: [{name: debug, image: d}]}"), named("spec: {containers: [{name: debug, args: [x]}]}"))
	if !errors.Is(err, merge.ErrNothingToExtend) {
		t.Error(err)
	}
}

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

// kubectl debug --copy-to drops the record, and keeps a sidecar that a parameter or an older template rendered.
func TestAConflictWithACopyOfAnotherSidecarNamesTheFlagThatKeepsItsAnnotations(t *testing.T) {
	_, err := inject(t, fragmenttest.Decode(t, "spec: {initContainers: [{name: s, image: 's:1', args: [a], restartPolicy: Always}], containers: []}"), named("spec: {initContainers: [{name: s, image: 's:1', args: [b], restartPolicy: Always}]}"))
	if err == nil || !strings.HasSuffix(err.Error(), " (if the pod is a copy by kubectl debug --copy-to, add --keep-annotations)") {
		t.Error(err)
	}
}
