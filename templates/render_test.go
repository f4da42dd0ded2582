package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// twoAndTwo is a pod with two init containers and two containers.
const twoAndTwo = `{"metadata":{"labels":{"app":"web"}},"spec":{
	"initContainers":[{"name":"i1","image":"i"},{"name":"i2","image":"i"}],
	"containers":[{"name":"c1","image":"c","ports":[{"containerPort":80}]},{"name":"c2","image":"c"}]}}`

func TestFragments(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"constants are as they are": {
			"inject: {metadata: {labels: {a: x}}, spec: {hostNetwork: true, priority: 5, volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}], containers: [{name: s, image: s, ports: [{containerPort: 8080}, {containerPort: 8080, protocol: UDP}], resources: {limits: {cpu: 0.5}}}]}}",
			`{"metadata":{"labels":{"a":"x"}},"spec":{"hostNetwork":true,"priority":5,"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"containers":[{"name":"s","image":"s","ports":[{"containerPort":8080},{"containerPort":8080,"protocol":"UDP"}],"resources":{"limits":{"cpu":0.5}}}]}}`},
		"an expression gives a typed value": {
			"inject: {spec: {priority: \"${1 + 1}\", hostNetwork: \"${true}\", nodeName: \"${'a'}\", volumes: \"${[{'name': 'v'}]}\"}}",
			`{"spec":{"priority":2,"hostNetwork":true,"nodeName":"a","volumes":[{"name":"v"}]}}`},
		"a text is made of what is not one": {
			"inject: {metadata: {annotations: {i: \"${1}\", d: \"${1.5}\", w: \"${2.0}\", b: \"${true}\", q: \"${quantity('1Gi')}\", t: \"${duration('90s')}\", p: \"${ip('10.0.0.1')}\"}}}",
			`{"metadata":{"annotations":{"i":"1","d":"1.5","w":"2","b":"true","q":"1Gi","t":"90s","p":"10.0.0.1"}}}`},
		"a whole double fits a whole number": {
			"inject: {spec: {priority: \"${2.0}\"}}", `{"spec":{"priority":2}}`},
		"values are joined inside a text": {
			"inject: {metadata: {annotations: {a: \"<${1}-${'x'}-${true}>\"}}}", `{"metadata":{"annotations":{"a":"<1-x-true>"}}}`},
		"a literal stays literal": {
			"inject: {metadata: {annotations: {a: \"$${HOME} $HOME $$ $(X) ${'${x}'}\"}}}", `{"metadata":{"annotations":{"a":"${HOME} $HOME $$ $(X) ${x}"}}}`},
		"null and none leave a field out": {
			"inject: {metadata: {labels: {a: \"${null}\", b: x}}, spec: {nodeName: \"${optional.none()}\", hostname: \"${pod.metadata.?labels.?app}\", subdomain: \"${pod.metadata.?labels.?none}\"}}",
			`{"metadata":{"labels":{"b":"x"}},"spec":{"hostname":"web"}}`},
		"none leaves an item out": {
			"inject: {spec: {containers: [{name: s, image: s, args: [a, \"${pod.spec.?hostname}\", b]}]}}", `{"spec":{"containers":[{"name":"s","image":"s","args":["a","b"]}]}}`},
		"an empty object stays, an emptied map and list do not": {
			"inject: {spec: {volumes: [{name: v, emptyDir: {sizeLimit: \"${null}\"}}], nodeSelector: {a: \"${null}\"}, tolerations: [{$if: \"false\", key: a}], containers: []}}",
			`{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[]}}`},
		"keys may be expressions": {
			"inject: {metadata: {labels: {\"app-${pod.metadata.?labels.?app.orValue('x')}\": a, \"x${1}\": b}}}", `{"metadata":{"labels":{"app-web":"a","x1":"b"}}}`},
		"$if drops items and objects": {
			"inject: {spec: {securityContext: {$if: \"false\", runAsUser: 1}, volumes: [{$if: \"size(pod.spec.containers) > 5\", name: a}, {$if: \"true\", name: b}]}}", `{"spec":{"volumes":[{"name":"b"}]}}`},
		"$for repeats an item": {
			"inject: {spec: {volumes: [{name: first}, {$for: \"x in ['a', 'b', 'c']\", $if: \"x != 'b'\", name: \"v-${x}\", configMap: {name: \"${x}\"}}]}}",
			`{"spec":{"volumes":[{"name":"first"},{"name":"v-a","configMap":{"name":"a"}},{"name":"v-c","configMap":{"name":"c"}}]}}`},
		"$for in $for, and over a map in the order of its keys": {
			"inject: {spec: {containers: [{$for: \"n in {'b': 1, 'a': 2}\", name: \"${n}\", image: i, env: [{$for: \"k in ['x', 'y']\", name: \"${n}_${k}\"}]}]}}",
			`{"spec":{"containers":[{"name":"a","image":"i","env":[{"name":"a_x"},{"name":"a_y"}]},{"name":"b","image":"i","env":[{"name":"b_x"},{"name":"b_y"}]}]}}`},
		"$each: App extends each container": {
			"inject: {spec: {containers: [{$each: App, env: [{name: NAME, value: \"${container.name}\"}]}]}}",
			`{"spec":{"containers":[{"name":"c1","env":[{"name":"NAME","value":"c1"}]},{"name":"c2","env":[{"name":"NAME","value":"c2"}]}]}}`},
		"$each: Init extends each init container": {
			"inject: {spec: {containers: [{$each: Init, env: [{name: A}]}]}}",
			`{"spec":{"initContainers":[{"name":"i1","env":[{"name":"A"}]},{"name":"i2","env":[{"name":"A"}]}]}}`},
		"$each: All extends both, and $if chooses": {
			"inject: {spec: {containers: [{$each: All, $if: \"container.name.endsWith('1')\", env: [{name: A}]}, {name: s, image: s}], initContainers: [{name: t, image: t}]}}",
			`{"spec":{"initContainers":[{"name":"t","image":"t"},{"name":"i1","env":[{"name":"A"}]}],"containers":[{"name":"s","image":"s"},{"name":"c1","env":[{"name":"A"}]}]}}`},
		"several $each of one container are one item": {
			"inject: {spec: {containers: [{$each: All, env: [{name: A}]}, {$each: App, env: [{name: A}, {name: B}], workingDir: /x}, {$each: App, $if: \"has(container.ports)\", env: [{name: C}]}]}}",
			`{"spec":{"initContainers":[{"name":"i1","env":[{"name":"A"}]},{"name":"i2","env":[{"name":"A"}]}],"containers":[{"name":"c1","env":[{"name":"A"},{"name":"B"},{"name":"C"}],"workingDir":"/x"},{"name":"c2","env":[{"name":"A"},{"name":"B"}],"workingDir":"/x"}]}}`},
		"$each that gives nothing leaves nothing": {
			"inject: {spec: {containers: [{$each: App, env: [{$if: \"false\", name: A}]}]}}", `null`},
		"a container of the sidecar's name is not extended": {
			"inject: {spec: {containers: [{name: c1, image: s}, {$each: App, env: [{name: A}]}]}}",
			`{"spec":{"containers":[{"name":"c1","image":"s"},{"name":"c2","env":[{"name":"A"}]}]}}`},
		"directives of the merge are passed on": {
			"inject: {metadata: {labels: {$onConflict: Overwrite, a: b}}, spec: {$onConflict: KeepPod, volumes: [{$position: First, $onConflict: Deny, name: v}]}}",
			`{"metadata":{"labels":{"$onConflict":"Overwrite","a":"b"}},"spec":{"$onConflict":"KeepPod","volumes":[{"$position":"First","$onConflict":"Deny","name":"v"}]}}`},
		"one scalar has its directive": {
			"inject: {metadata: {annotations: {a: {$append: \",\", value: \"${size(pod.spec.containers)}\"}, b: {$onConflict: Overwrite, value: \"<${1}>\"}}, labels: {c: {$if: \"false\", $onConflict: Deny, value: x}, d: {$onConflict: Deny, value: \"${null}\"}}}, " +
				"spec: {terminationGracePeriodSeconds: {$if: \"true\", $onConflict: KeepPod, value: \"${30 * 2}\"}, hostNetwork: {$onConflict: Deny, value: true}, nodeSelector: {disk: {$onConflict: Overwrite, value: ssd}}}}",
			`{"metadata":{"annotations":{"a":{"$append":",","value":"2"},"b":{"$onConflict":"Overwrite","value":"<1>"}}},"spec":{"terminationGracePeriodSeconds":{"$onConflict":"KeepPod","value":60},"hostNetwork":{"$onConflict":"Deny","value":true},"nodeSelector":{"disk":{"$onConflict":"Overwrite","value":"ssd"}}}}`},
		"several items append to one variable": {
			"inject: {spec: {containers: [{name: c1, env: [{name: J, $append: \" \", value: a}, {$for: \"x in ['b', 'c']\", name: J, $append: \" \", value: \"${x}\"}, {name: J, $append: \" \", value: \"${null}\"}, {$if: \"false\", name: J, $append: \" \", value: d}]}]}}",
			`{"spec":{"containers":[{"name":"c1","env":[{"name":"J","$append":" ","value":"a"},{"name":"J","$append":" ","value":"b"},{"name":"J","$append":" ","value":"c"}]}]}}`},
		"several $each append to one variable": {
			"inject: {spec: {containers: [{$each: App, env: [{name: J, $append: \" \", value: a}]}, {$each: App, env: [{name: J, $append: \" \", value: a}, {name: B}]}, {$each: App, $if: \"has(container.ports)\", env: [{name: J, $append: \",\", value: b}]}]}}",
			`{"spec":{"containers":[{"name":"c1","env":[{"name":"J","$append":" ","value":"a"},{"name":"B"},{"name":"J","$append":",","value":"b"}]},{"name":"c2","env":[{"name":"J","$append":" ","value":"a"},{"name":"B"}]}]}}`},
		"a list of objects stands for its items": {
			"variables: [{name: v, expression: \"[{'name': dyn('x'), 'emptyDir': dyn({})}, {'name': dyn('y')}]\"}]\ninject: {spec: {volumes: [{name: a}, \"${variables.v}\", {name: b}], topologySpreadConstraints: [\"${[{'maxSkew': dyn(1), 'topologyKey': dyn('z'), 'whenUnsatisfiable': dyn('DoNotSchedule')}]}\"], containers: [{name: s, image: s, args: [a, \"${['b', 'c']}\"]}]}}",
			`{"spec":{"volumes":[{"name":"a"},{"name":"x","emptyDir":{}},{"name":"y"},{"name":"b"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}],"containers":[{"name":"s","image":"s","args":["a","b","c"]}]}}`},
		"$position names its anchor by an expression": {
			"variables: [{name: none, expression: \"''\"}]\ninject: {spec: {initContainers: [{name: s, image: s, $position: {before: \"${pod.spec.?initContainers[?1].?name.orValue('')}\"}}, {name: u, image: u, $position: {after: \"i${1}\"}}, {name: t, image: t, $position: {before: \"${variables.none}\"}}]}}",
			`{"spec":{"initContainers":[{"$position":{"before":"i2"},"name":"s","image":"s"},{"$position":{"after":"i1"},"name":"u","image":"u"},{"$position":{"before":""},"name":"t","image":"t"}]}}`},
		"nothing is nothing":       {"inject: {metadata: {labels: {a: \"${null}\"}}, spec: {$onConflict: Deny, volumes: [{$if: \"false\", name: v}]}}", `null`},
		"the whole may be dropped": {"inject: {$if: \"false\", spec: {nodeName: a}}", `null`},
		"variables see those before them": {
			"variables: [{name: a, expression: \"size(pod.spec.containers)\"}, {name: b, expression: \"variables.a * 10\"}]\ninject: {spec: {priority: \"${variables.b + 1}\"}}", `{"spec":{"priority":21}}`},
		"a variable that fails matters only where it is read": {
			"variables: [{name: a, expression: \"pod.spec.securityContext.seccompProfile.type\"}]\ninject: {metadata: {labels: {a: \"${false ? variables.a : 'x'}\"}}}", `{"metadata":{"labels":{"a":"x"}}}`},
		"the namespace is seen": {
			"inject: {metadata: {labels: {\"n\": \"${namespaceObject.metadata.name}\", l: \"${namespaceObject.metadata.labels.?team}\", a: \"${namespaceObject.metadata.annotations.?x}\"}}}", `{"metadata":{"labels":{"n":"ns","l":"red","a":"y"}}}`},
		"the installer's values are seen": {
			"inject: {metadata: {labels: {a: \"${values.cluster.name}\", b: \"${values.?nope.orValue('z')}\", c: \"${values.n}\"}}}", `{"metadata":{"labels":{"a":"east","b":"z","c":"9007199254740993"}}}`},
		"toJson and shellQuote": {
			"inject: {metadata: {annotations: {j: \"${toJson({'b': dyn(1), 'a': dyn([dyn('<'), dyn(null), dyn(1.5), dyn(true)])})}\", s: \"${shellQuote('it\\\\'s $x')}\"}}}", `{"metadata":{"annotations":{"j":"{\"a\":[\"<\",null,1.5,true],\"b\":1}","s":"'it'\\''s $x'"}}}`},
		"lists made from maps have an order": {
			"variables: [{name: m, expression: \"{'d': 1, 'b': 2, 'a': 3, 'c': 4}\"}]\ninject: {metadata: {annotations: {a: \"${variables.m.map(k, k).join()}\", b: \"${variables.m.transformList(k, v, k + string(v)).join()}\", c: \"${dyn(variables.m).filter(k, k != 'a').join()}\"}}}",
			`{"metadata":{"annotations":{"a":"abcd","b":"a3b2c4d1","c":"bcd"}}}`},
		"names of parameters may be words of other languages": {
			"parameters: [{name: namespace, type: string, default: x}, {name: package, type: string, default: z}]\ninject: {metadata: {labels: {a: \"${params.namespace + params.package}\"}}}", `{"metadata":{"labels":{"a":"xz"}}}`},
		"a } in a string does not end an expression": {
			"inject: {metadata: {annotations: {a: \"${'}' + \\\"}'\\\" + {'k': '}'}['k']}|\"}}}", `{"metadata":{"annotations":{"a":"}}'}|"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := compiledWith(t, manifestOf(c.spec), Options{Source: "t.yaml", Values: map[string]any{"cluster": map[string]any{"name": "east"}, "n": json.Number("9007199254740993")}})
			pod := raw(t, twoAndTwo)
			before := asJSON(t, pod)
			in := Input{Pod: pod, Namespace: Namespace{Name: "ns", Labels: map[string]string{"team": "red"}, Annotations: map[string]string{"x": "y"}}}
			got := rendered(t, tmpl, in).Fragment
			if c.want == "null" {
				if got != nil {
					t.Errorf("fragment %s, want nil", asJSON(t, fragmenttest.JSON(got)))
				}
			} else {
				wantFragment(t, got, c.want)
			}
			if asJSON(t, pod) != before {
				t.Error("the pod was modified")
			}
		})
	}
}

func TestParametersKeepTheirTypesInExpressions(t *testing.T) {
	tmpl := compiled(t, `
parameters:
- {name: i, type: integer, default: 5}
- {name: num, type: number, default: 5}
- {name: b, type: boolean, default: true}
- {name: l, type: list, items: integer, default: [1, 2]}
- {name: m, type: map, items: number, default: {a: 1.5}}
- {name: j, type: json, default: {name: A, value: x}}
- {name: absent, type: string}
inject:
  metadata:
    annotations:
      i: "${params.i + 1}"
      "n": "${params.num * 1.5}"
      b: "${params.b ? 'yes' : 'no'}"
      l: "${params.l.sum() + 1}"
      m: "${params.m.a * 2.0}"
      absent: "${params.?absent}"
      or: "${params.?absent.orValue('none')}"
      has: "${has(params.absent)}"
      whole: "${toJson(params)}"
  spec:
    containers: [{name: s, image: s, env: ["${params.j}"]}]`)
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment, `{
		"metadata":{"annotations":{"i":"6","n":"7.5","b":"yes","l":"4","m":"3","or":"none","has":"false","whole":"{\"b\":true,\"i\":5,\"j\":{\"name\":\"A\",\"value\":\"x\"},\"l\":[1,2],\"m\":{\"a\":1.5},\"num\":5}"}},
		"spec":{"containers":[{"name":"s","image":"s","env":[{"name":"A","value":"x"}]}]}}`)
}

func TestNumbersThatAnExpressionPassesOnStayExact(t *testing.T) {
	tmpl := compiled(t, "allowUnknownFields: true\nparameters: [{name: j, type: json}]\ninject: {spec: {newField: \"${params.?j}\"}}")
	text := `{"a":1.10,"b":[123456789012345678901234567890,1e400]}`
	got := asJSON(t, fragmenttest.JSON(rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/j": text})}).Fragment))
	if want := `{"spec":{"newField":` + text + `}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheFirstConditionThatIsFalseIsToldAndNothingIsRendered(t *testing.T) {
	tmpl := compiled(t, "matchConditions:\n- {name: a, expression: 'true'}\n- {name: b, expression: \"pod.spec.?hostNetwork.orValue(false)\", message: why}\n- {name: c, expression: 'false'}\ninject: {spec: {nodeName: \"${pod.spec.hostname}\"}}")
	r := rendered(t, tmpl, Input{Pod: onePod(t, nil)})
	if r.Unmet == nil || r.Unmet.Name != "b" || r.Unmet.Message != "why" || r.Fragment != nil {
		t.Errorf("unmet %+v, fragment %v", r.Unmet, r.Fragment)
	}
}

// The fragment below fails for a pod that the condition or the validation keeps out.
func TestConditionsAndValidationsAreJudgedBeforeTheFragmentIsRendered(t *testing.T) {
	const isNumber = "pod.?metadata.?annotations[?'port'].orValue('80').matches('^[0-9]+$')"
	const inject = "inject: {spec: {initContainers: [{name: s, image: busybox, args: [\"--port=${int(pod.?metadata.?annotations[?'port'].orValue('80')) + 1}\"]}]}}"
	pod := onePod(t, map[string]string{"port": "http"})
	r := rendered(t, compiled(t, `validations: [{name: number, expression: "`+isNumber+`", message: the annotation port must be a number}]`+"\n"+inject), Input{Pod: pod})
	if len(r.Invalid) != 1 || r.Invalid[0].Message != "the annotation port must be a number" || r.Fragment != nil {
		t.Errorf("invalid %+v, fragment %v", r.Invalid, r.Fragment)
	}
	r = rendered(t, compiled(t, `matchConditions: [{name: number, expression: "`+isNumber+`"}]`+"\n"+inject), Input{Pod: pod})
	if r.Unmet == nil || r.Fragment != nil {
		t.Errorf("unmet %+v, fragment %v", r.Unmet, r.Fragment)
	}
}

// An earlier template may add an annotation. It sets no parameter.
func TestParametersAreReadFromTheAuthorsAnnotations(t *testing.T) {
	tmpl := compiled(t, "parameters: [{name: p, type: string, default: default}, {name: m, type: map, items: string}]\n"+
		"inject: {metadata: {labels: {p: \"${params.p}\", m: \"${params.?m.a}\", seen: \"${pod.metadata.?annotations[?'t.pillion.dev/p']}\"}}}")
	in := Input{Pod: onePod(t, map[string]string{"t.pillion.dev/p": "added", "t.pillion.dev/m.a": "added"}), Author: onePod(t, nil)}
	wantFragment(t, rendered(t, tmpl, in).Fragment, `{"metadata":{"labels":{"p":"default","seen":"added"}}}`)
	in.Author = onePod(t, map[string]string{"t.pillion.dev/p": "author"})
	wantFragment(t, rendered(t, tmpl, in).Fragment, `{"metadata":{"labels":{"p":"author","seen":"added"}}}`)
}

func TestWhatFailsForAPodIsARenderError(t *testing.T) {
	for name, c := range map[string]struct{ spec, pod, path, says string }{
		"a field that the pod lacks": {
			"inject: {spec: {nodeName: \"${pod.metadata.?labels.hasValue() ? pod.metadata.labels.tier : 'x'}\"}}", "", "spec.inject.spec.nodeName", "no such key: tier"},
		"a value of another kind": {
			"inject: {spec: {priority: \"${dyn(pod).metadata.?labels.?n.orValue(dyn(1))}\"}}", `"n":"high"`, "spec.inject.spec.priority", "gives text; it must be a whole number"},
		"a quantity that is none": {
			"inject: {spec: {overhead: {cpu: \"${pod.metadata.?labels.?k.orValue('1')}\"}}}", `"k":"invalid"`, "spec.inject.spec.overhead.cpu", `gives "invalid", which is no quantity`},
		"a quantity that is none with a directive": {
			"inject: {spec: {overhead: {cpu: {$onConflict: Overwrite, value: \"${pod.metadata.?labels.?k.orValue('1')}\"}}}}", `"k":"invalid"`, "spec.inject.spec.overhead.cpu.value", `gives "invalid", which is no quantity`},
		"a quantity in a text": {
			"inject: {spec: {overhead: {memory: \"${pod.metadata.?labels.?k.orValue('1')}MB\"}}}", `"k":"64"`, "spec.inject.spec.overhead.memory", `gives "1MB", which is no quantity; write 1M or 1Mi`},
		"a quantity in a value of unknown shape": {
			"parameters: [{name: p, type: json, default: {}}]\ninject: {spec: {overhead: \"${pod.metadata.?labels.?k.hasValue() ? {'cpu': pod.metadata.labels.k} : {}}\"}}", `"k":"ten"`, "spec.inject.spec.overhead", `in "cpu": gives "ten", which is no quantity`},
		"a port that no container can have": {
			"inject: {spec: {containers: [{name: c1, ports: [{containerPort: \"${int(pod.metadata.?labels.?k.orValue('1'))}\"}]}]}}", `"k":"70000"`, "spec.inject.spec.containers[0].ports[0].containerPort", `gives 70000, which is not from 1 to 65535`},
		"a key that begins with $": {
			"inject: {metadata: {labels: {\"${pod.metadata.?labels.?k.orValue('k')}\": v}}}", `"k":"$patch"`, "spec.inject.metadata.labels", `the key "$patch" begins with $`},
		"a key that is there already": {
			"inject: {metadata: {labels: {a: v, \"${pod.metadata.?labels.?k.orValue('k')}\": v}}}", `"k":"a"`, "spec.inject.metadata.labels", `the key "a" is there twice`},
		"a reserved key": {
			"inject: {metadata: {annotations: {\"${pod.metadata.?labels.?k.orValue('k')}\": v}}}", `"k":"pillion.dev/status"`, "spec.inject.metadata.annotations", `reserved`},
		"two items of one name": {
			"inject: {spec: {volumes: [{name: a}, {name: \"${pod.metadata.?labels.?k.orValue('k')}\"}]}}", `"k":"a"`, "spec.inject.spec.volumes[1]", `two items have the same name "a"`},
		"two items of one name in a list that stands for its items": {
			"inject: {spec: {volumes: [{name: a}, \"${[{'name': pod.metadata.?labels.?k.orValue('k')}]}\"]}}", `"k":"a"`, "spec.inject.spec.volumes[1]", `two items have the same name "a"`},
		"an item without a name": {
			"inject: {spec: {volumes: [{name: \"${pod.metadata.?labels.?k.orValue('k')}\"}]}}", `"k":""`, "spec.inject.spec.volumes[0]", `needs name`},
		"none inside a text": {
			"inject: {spec: {nodeName: \"a-${dyn(pod).metadata.?labels.?k.orValue(dyn('k'))}\"}}", `"k":null`, "spec.inject.spec.nodeName", `null or none inside a text`},
		"$each that disagree": {
			"inject: {spec: {containers: [{$each: App, workingDir: /a}, {$each: App, $if: \"has(pod.metadata.labels)\", workingDir: /b}]}}", `"k":"a"`, "spec.inject.spec.containers[1]", `different values to container`},
		"$each that set and append": {
			"inject: {spec: {containers: [{$each: App, env: [{name: J, value: a}]}, {$each: App, $if: \"has(pod.metadata.labels)\", env: [{name: J, $append: \" \", value: b}]}]}}", `"k":"a"`, "spec.inject.spec.containers[1]", `different values to container`},
		"an item that sets and one that appends": {
			"inject: {spec: {containers: [{name: c1, env: [{name: J, $append: \" \", value: a}, {name: \"${pod.metadata.?labels.?k.orValue('k')}\", value: b}]}]}}", `"k":"J"`, "spec.inject.spec.containers[0].env[1]", `two items have the same name "J"`},
		"a variable": {
			"variables: [{name: v, expression: \"int(pod.metadata.?labels.?k.orValue('1'))\"}]\ninject: {spec: {priority: \"${variables.v}\"}}", "\"k\":\"a\\u001bb\"", "spec.inject.spec.priority", "variable v: "},
	} {
		t.Run(name, func(t *testing.T) {
			labels := c.pod
			if labels == "" {
				labels = `"other":"x"`
			}
			text := manifestOf(c.spec)
			tmpl, _, err := Compile(text, Options{})
			if err != nil {
				// The full pod has labels and lacks this one.
				if !strings.Contains(err.Error(), c.says) {
					t.Fatal(err)
				}
				return
			}
			pod := onePod(t, nil)
			pod["metadata"].(map[string]any)["labels"] = raw(t, "{"+labels+"}")
			_, err = tmpl.Render(t.Context(), Input{Pod: pod})
			var failed *RenderError
			if !errors.As(err, &failed) {
				t.Fatalf("error %v", err)
			}
			if failed.Path != c.path || failed.Line != 5 && failed.Line != 6 || !strings.Contains(failed.Message, c.says) || strings.ContainsRune(failed.Message, '\x1b') {
				t.Errorf("line %d: %v", failed.Line, failed)
			}
		})
	}
}

func TestWhatATenantCanMakeATemplateCostIsBounded(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("a,", 900), ",")
	for name, c := range map[string]struct{ spec, value, says string }{
		"cost of one expression":                          {"inject: {metadata: {labels: {a: \"${string(params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size())}\"}}}", long, "costs more than 100000"},
		"cost that || would hide":                         {"inject: {spec: {hostNetwork: \"${params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0 || true}\"}}", long, "costs more than 100000"},
		"cost of a variable that || would hide":           {"variables: [{name: v, expression: \"params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0\"}]\ninject: {spec: {hostNetwork: \"${variables.v || true}\"}}", long, "costs more than 100000"},
		"cost of a variable that is read again and again": {"variables: [{name: v, expression: \"params.l.map(a, params.l.map(b, params.l.map(c, a + b + c))).size() > 0\"}]\ninject: {spec: {hostNetwork: \"${params.l.all(x, variables.v || true)}\"}}", long, "costs more than 100000"},
		"repetitions inside repetitions":                  {"inject: {spec: {containers: [{$for: \"x in params.l\", name: \"${x}\", image: i, env: [{$for: \"y in params.l\", $if: \"x == y && false\", name: a}]}]}}", strings.Join(numbers(900), ","), "together cost more than 500000"},
		"cost of all together":                            {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}${params.l.map(y, y).size()}\"}]}}", strings.Join(numbers(300), ","), "together cost more than 500000"},
		"repetitions":                                     {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}\"}]}}", strings.Join(numbers(expression.MaxIterations+1), ","), "$for repeats more than 1000 times"},
		"bytes":                                           {"inject: {metadata: {annotations: {a: \"${params.l.join()}${params.l.join()}${params.l.join()}\"}}}", strings.Repeat("x", 100_000), "larger than 262144 bytes"},
		"bytes of constants":                              {"inject: {spec: {volumes: [{$for: \"x in params.l\", name: \"${x}\", configMap: {name: " + strings.Repeat("c", 2000) + "}}]}}", strings.Join(numbers(200), ","), "larger than 262144 bytes"},
		"bytes of toJson":                                 {"inject: {metadata: {annotations: {a: \"${string(toJson([params.l, params.l, params.l]).size())}\"}}}", strings.Repeat("x", 100_000), "more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := compiled(t, "parameters: [{name: l, type: list, items: string, default: [a]}]\n"+c.spec)
			_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/l": c.value})})
			var failed *RenderError
			if !errors.As(err, &failed) || !failed.TooExpensive || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("n", i)
	}
	return out
}

func TestAFragmentSharesNoMemoryWithTheTemplateThePodOrTheNamespace(t *testing.T) {
	const everything = `
allowUnknownFields: true
parameters: [{name: j, type: json, default: {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}}, {name: l, type: list, items: string, default: [a, b]}]
variables: [{name: copied, expression: "pod.spec.containers[0]"}]
inject:
  metadata: {annotations: {a: {$append: ",", value: "x${1}"}}}
  spec:
    $unset: [hostname]
    newField: {a: [{b: c}]}
    containers: [{name: s, $position: {before: "${'x'}"}, image: s, command: [a, b], args: "${params.l}", env: ["${params.j}"], ports: "${variables.copied.?ports.orValue([])}", $unset: [stdin, tty]}]
    tolerations: [{key: a}]
    nodeSelector: {$if: "true", a: b}`
	for _, text := range [][]byte{read(t, "fluent-bit.yaml"), manifestOf(everything)} {
		tmpl := compiledWith(t, text, Options{})
		in := Input{Pod: raw(t, twoAndTwo), Namespace: Namespace{Name: "shop"}}
		pod := asJSON(t, in.Pod)
		first := rendered(t, tmpl, in).Fragment
		want := asJSON(t, fragmenttest.JSON(first))
		spoilNode(first)
		if got := asJSON(t, fragmenttest.JSON(rendered(t, tmpl, in).Fragment)); got != want {
			t.Errorf("after the first fragment was changed the second is\n%s\nwant\n%s", got, want)
		}
		if got := asJSON(t, in.Pod); got != pod {
			t.Errorf("after the fragment was changed the pod is\n%s\nwant\n%s", got, pod)
		}
	}
}

// spoilNode changes everything in a fragment.
func spoilNode(n *fragment.Node) {
	spoil(n.Value)
	for i := range n.Unset {
		n.Unset[i] = "spoilt"
	}
	if n.Join != nil {
		n.Join.Text, n.Join.Separator = "spoilt", "spoilt"
	}
	for i, f := range n.Fields {
		spoilNode(f.Node)
		n.Fields[i].Name = "spoilt"
	}
	for i, it := range n.Items {
		spoilNode(it.Node)
		n.Items[i].Key = "spoilt"
	}
	*n = fragment.Node{}
}

// spoil changes everything in a value.
func spoil(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			spoil(value)
		}
		v["spoilt"] = true
	case []any:
		for i := range v {
			spoil(v[i])
			v[i] = "spoilt"
		}
	}
}

func TestTheSamePodGivesTheSameBytesWhoeverRenders(t *testing.T) {
	tmpl := compiledWith(t, read(t, "fluent-bit.yaml"), Options{})
	in := Input{Pod: onePod(t, map[string]string{"fluent-bit.pillion.dev/output.a": "1", "fluent-bit.pillion.dev/output.b": "2", "fluent-bit.pillion.dev/output.c": "3"})}
	want := asJSON(t, rendered(t, tmpl, in))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				r, err := tmpl.Render(t.Context(), in)
				if err != nil {
					t.Error(err)
					return
				}
				if got, _ := json.Marshal(r); string(got) != want {
					t.Errorf("got %s, want %s", got, want)
					return
				}
			}
		})
	}
	group.Wait()
}
