package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/manifest"
)

// mistakes are specs with one mistake each. The line counts from the spec's
// first; the manifest's head has four lines more.
var mistakes = []struct {
	name, spec string
	line       int
	path, says string
}{
	{"an unknown field of the spec", "suspended: true\ninject: {}", 1, "spec.suspended", "did you mean suspend?"},
	{"a wrong type in the spec", "order: first\ninject: {}", 1, "spec.order", "must be a whole number; got text"},
	{"a boolean where text is wanted", "parameters: [{name: n, type: string}]\ninject: {}", 1, "spec.parameters[0].name", "must be text; got a boolean: put it in quotes (y, n"},
	{"a number that is too large", "order: 3000000000\ninject: {}", 1, "spec.order", "from -2147483648 to 2147483647"},
	{"an unknown level of security", "containerSecurity: Baseline\ninject: {}", 1, "spec.containerSecurity", `must be one of Restricted; got "Baseline"`},
	{"an unknown policy of resources", "podResources: Ignore\ninject: {}", 1, "spec.podResources", `must be one of Add, Keep; got "Ignore"`},
	{"an unknown policy", "onError: Ignore\ninject: {}", 1, "spec.onError", "must be one of Deny, Skip"},
	{"no fragment", "order: 1", 0, "spec.inject", "is missing"},
	{"required without match", "inject: {}\nrequired: true", 2, "spec.required", "needs match"},
	{"required and overridable", "inject: {}\nmatch: {}\nrequired: true\noverridable: true", 4, "spec.overridable", "cannot be overridable"},
	{"required that keeps the pod's", "inject: {}\nmatch: {}\nrequired: true\nonConflict: KeepPod", 4, "spec.onConflict", "must be Deny or Overwrite"},
	{"required that keeps the pod's on one node", "match: {}\nrequired: true\ninject: {spec: {$onConflict: KeepPod}}", 3, "spec.inject.spec.$onConflict", "must be Deny or Overwrite"},
	{"required that is skipped when it fails", "inject: {}\nmatch: {}\nrequired: true\nonError: Skip", 4, "spec.onError", "must be Deny"},
	{"required with a required parameter that nobody may set", "inject: {}\nmatch: {}\nrequired: true\nparameters: [{name: a, type: string, required: true}]", 4, "spec.parameters[0].setBy", "lets nobody set"},
	{"required with a computed name", "match: {}\nrequired: true\ninject:\n  spec:\n    initContainers:\n    - name: a-${pod.metadata.namespace}\n      image: a", 6, "spec.inject.spec.initContainers[0].name", "write the name as plain text"},
	{"required with repeated containers", "match: {}\nrequired: true\ninject:\n  spec:\n    containers:\n    - $for: x in ['a']\n      name: a\n      image: a", 6, "spec.inject.spec.containers[0].$for", "write out each container"},
	{"required with computed containers", "match: {}\nrequired: true\ninject:\n  spec:\n    containers: \"${[{'name': 'a', 'image': 'a'}]}\"", 5, "spec.inject.spec.containers", "write out each container"},
	{"required with a computed container", "match: {}\nrequired: true\ninject:\n  spec:\n    containers:\n    - \"${{'name': 'a', 'image': 'a'}}\"", 6, "spec.inject.spec.containers[0]", "write out each container"},
	{"required with a computed volume", "match: {}\nrequired: true\ninject:\n  spec:\n    volumes:\n    - name: a-${pod.metadata.namespace}\n      emptyDir: {}", 6, "spec.inject.spec.volumes[0].name", "write the name as plain text"},
	{"required with computed volumes", "match: {}\nrequired: true\ninject:\n  spec:\n    volumes: \"${pod.spec.?volumes.orValue([])}\"", 5, "spec.inject.spec.volumes", "write out each container and volume"},
	{"verify without required", "inject: {}\nverify: {images: [a]}", 2, "spec.verify", "only for required templates"},
	{"a bad selector", "inject: {}\nmatch:\n  podSelector: {matchExpressions: [{key: a, operator: Is}]}", 3, "spec.match.podSelector", "not a valid label selector operator"},
	{"a key that is there twice", "order: 1\ninject: {}\norder: 2", 3, "spec.order", "twice, first on line 5"},

	{"an unknown pod field", "inject:\n  spec:\n    containers:\n    - name: a\n      imagePullPolcy: Always", 5, "spec.inject.spec.containers[0].imagePullPolcy", "did you mean imagePullPolicy?"},
	{"a number where text is wanted", "inject:\n  spec:\n    containers:\n    - name: a\n      env:\n      - {name: A, value: 1}", 6, "spec.inject.spec.containers[0].env[0].value", "must be text; got"},
	{"a quantity that is none", "inject:\n  spec:\n    containers:\n    - name: a\n      image: a:1\n      resources: {limits: {memory: 64MB}}", 6, "spec.inject.spec.containers[0].resources.limits.memory", `"64MB" is no quantity; write 64M or 64Mi`},
	{"a quantity below 0", "inject:\n  spec:\n    volumes: [{name: a, emptyDir: {sizeLimit: -1Gi}}]", 3, "spec.inject.spec.volumes[0].emptyDir.sizeLimit", `"-1Gi" is negative`},
	{"a quantity with directives", "inject:\n  spec:\n    overhead: {cpu: {$onConflict: Overwrite, value: ten}}", 3, "spec.inject.spec.overhead.cpu.value", `"ten" is no quantity; write a number`},
	{"a quantity from a parameter's default", "parameters: [{name: cpu, type: string, default: ten}]\ninject:\n  spec:\n    containers:\n    - name: a\n      image: a:1\n      resources: {limits: {cpu: \"${params.cpu}\"}}", 7, "spec.inject.spec.containers[0].resources.limits.cpu", `fails for a minimal pod: gives "ten", which is no quantity`},
	{"a port that no container can have", "inject:\n  spec:\n    containers:\n    - {name: a, image: a, ports: [{containerPort: 80800}]}", 4, "spec.inject.spec.containers[0].ports[0].containerPort", "80800 is not from 1 to 65535"},
	{"a port of a probe that is text", "inject:\n  spec:\n    containers:\n    - {name: a, image: a, livenessProbe: {httpGet: {port: \"8080\"}}}", 4, "spec.inject.spec.containers[0].livenessProbe.httpGet.port", `"8080" is text, and the name of a port has a letter; for the number write no quotes`},
	{"a port's name that is none", "inject:\n  spec:\n    containers:\n    - {name: a, image: a, livenessProbe: {httpGet: {port: metrics_port}}}", 4, "spec.inject.spec.containers[0].livenessProbe.httpGet.port", `"metrics_port" is no name of a port`},
	{"a duration that is negative", "inject:\n  spec:\n    containers:\n    - {name: a, image: a, livenessProbe: {periodSeconds: -1}}", 4, "spec.inject.spec.containers[0].livenessProbe.periodSeconds", "-1 is not from 0 to 2147483647"},
	{"a word where a number is wanted", "inject:\n  spec: {terminationGracePeriodSeconds: 30s}", 2, "spec.inject.spec.terminationGracePeriodSeconds", `got text, "30s"; write digits alone`},
	{"text where a number is wanted", "inject:\n  spec:\n    containers:\n    - name: a\n      ports:\n      - containerPort: \"80\"", 6, "spec.inject.spec.containers[0].ports[0].containerPort", "remove the quotes"},
	{"a fraction where a whole number is wanted", "inject:\n  spec: {priority: 1.5}", 2, "spec.inject.spec.priority", "must be a whole number"},
	{"an object where a list is wanted", "inject:\n  spec:\n    volumes: {name: a}", 3, "spec.inject.spec.volumes", "must be a list; got an object"},
	{"a list where an object is wanted", "inject:\n  spec: []", 2, "spec.inject.spec", "must be an object; got a list"},
	{"null", "inject:\n  spec:\n    volumes: null", 3, "spec.inject.spec.volumes", "is null"},
	{"status", "inject:\n  status: {phase: Running}", 2, "spec.inject.status", "only metadata.labels, metadata.annotations and spec"},
	{"metadata that is the pod's own", "inject:\n  metadata: {name: a}", 2, "spec.inject.metadata.name", "only metadata.labels"},
	{"ephemeral containers", "inject:\n  spec:\n    ephemeralContainers: []", 3, "spec.inject.spec.ephemeralContainers", "cannot be injected"},
	{"a spec that is an expression", "inject:\n  spec: ${values}", 2, "spec.inject.spec", "must be written out"},
	{"a reserved annotation", "inject:\n  metadata:\n    annotations: {pillion.dev/inject: a}", 3, "spec.inject.metadata.annotations", "reserved"},
	{"another template's parameter", "inject:\n  metadata:\n    annotations: {x.pillion.dev/a: a}", 3, "spec.inject.metadata.annotations", "reserved"},

	{"an unknown directive", "inject:\n  spec:\n    volumes:\n    - {$iff: a, name: a}", 4, `spec.inject.spec.volumes[0].$iff`, "did you mean $if?"},
	{"$patch", "inject:\n  spec:\n    volumes:\n    - {$patch: merge, name: a}", 4, `spec.inject.spec.volumes[0].$patch`, "must be delete or replace"},
	{"$patch inside one value", "inject:\n  spec:\n    tolerations:\n    - {$patch: delete, key: a}", 4, `spec.inject.spec.tolerations[0].$patch`, "one value"},
	{"$patch of the spec", "inject:\n  spec:\n    $patch: delete", 3, `spec.inject.spec.$patch`, "what no template may"},
	{"$patch with $each", "inject:\n  spec:\n    containers:\n    - {$each: App, $patch: delete}", 4, `spec.inject.spec.containers[0].$patch`, "by its name"},
	{"$unset of a reserved annotation", "inject:\n  metadata:\n    annotations: {$unset: [pillion.dev/inject]}", 3, "spec.inject.metadata.annotations", "reserved"},
	{"$unset", "inject:\n  spec:\n    containers:\n    - {$unset: [imag], name: a}", 4, `spec.inject.spec.containers[0].$unset`, "did you mean image?"},
	{"$unset of a field that is set, too", "inject:\n  spec:\n    hostname: a\n    $unset: [hostPID, hostname]", 4, `spec.inject.spec.$unset`, "removes hostname, which this object also sets"},
	{"$unset in a variable", "inject:\n  spec:\n    containers:\n    - name: a\n      env: [{name: A, $unset: [value]}]", 5, `spec.inject.spec.containers[0].env[0].$unset`, "cannot be used inside what the API treats as one value"},
	{"$unset of an expression", "inject:\n  metadata:\n    labels: {$unset: [\"${values.a}\"]}", 3, `spec.inject.metadata.labels.$unset`, "must be a list of names"},
	{"$patch of all containers", "inject:\n  spec:\n    containers:\n    - $patch: replace\n    - {name: a, image: a}", 4, `spec.inject.spec.containers[0].$patch`, "what no template may remove: spec.containers"},
	{"$patch of a container without an image", "inject:\n  spec:\n    containers:\n    - {name: a, $patch: replace}", 4, `spec.inject.spec.containers[0].$patch`, "give the item an image"},
	{"an unknown $position", "inject:\n  spec:\n    volumes:\n    - {$position: Middle, name: a}", 4, `spec.inject.spec.volumes[0].$position`, "must be First, Last"},
	{"$position on no item", "inject:\n  spec:\n    $position: First", 3, `spec.inject.spec.$position`, "only for items of lists"},
	{"an unknown $onConflict", "inject:\n  spec:\n    volumes:\n    - {$onConflict: Win, name: a}", 4, `spec.inject.spec.volumes[0].$onConflict`, "Deny, KeepPod, Overwrite"},
	{"$onConflict inside one value", "inject:\n  spec:\n    tolerations:\n    - {$onConflict: Deny, key: a}", 4, `spec.inject.spec.tolerations[0].$onConflict`, "one value"},
	{"$append with an expression", "inject:\n  spec:\n    containers:\n    - name: a\n      env: [{name: A, $append: \"${','}\", value: x}]", 5, `spec.inject.spec.containers[0].env[0].$append`, "not empty, and without expressions"},
	{"$append and $patch", "inject:\n  spec:\n    containers:\n    - name: a\n      env: [{name: A, $append: \",\", value: x, $patch: replace}]", 5, `spec.inject.spec.containers[0].env[0].$append`, "cannot be combined with $patch"},
	{"$append and $onConflict on an annotation", "inject:\n  metadata:\n    annotations:\n      a: {$append: \",\", value: x, $onConflict: Deny}", 4, `spec.inject.metadata.annotations.a.$append`, "cannot be combined with $onConflict"},
	{"$append to a label", "inject:\n  metadata:\n    labels:\n      a: {$append: \",\", value: x}", 4, `spec.inject.metadata.labels.a.$append`, "only for items of a container's env, and for the values of annotations"},
	{"$append to another field", "inject:\n  spec:\n    hostname: {$append: \",\", value: x}", 3, `spec.inject.spec.hostname.$append`, "only for items of a container's env"},
	{"$append to a volume", "inject:\n  spec:\n    volumes:\n    - {name: v, $append: \",\"}", 4, `spec.inject.spec.volumes[0].$append`, "only for items of a container's env"},
	{"$append of a number", "inject:\n  metadata:\n    annotations:\n      a: {$append: \",\", value: 8080}", 4, `spec.inject.metadata.annotations.a.value`, "must be text; got"},
	{"an unknown policy of a scalar", "inject:\n  spec:\n    hostname: {$onConflict: Win, value: x}", 3, `spec.inject.spec.hostname.$onConflict`, "Deny, KeepPod, Overwrite"},
	{"a scalar without its value", "inject:\n  spec:\n    hostname: {$onConflict: Deny}", 3, `spec.inject.spec.hostname.$onConflict`, "which is missing; write {$onConflict: KeepPod, value: V}"},
	{"a scalar with another field", "inject:\n  spec:\n    hostname: {$onConflict: Deny, val: x}", 3, `spec.inject.spec.hostname.$onConflict`, `the field "val" is not allowed; write {$onConflict: KeepPod, value: V}`},
	{"a scalar with another directive", "inject:\n  spec:\n    hostname: {$patch: replace, value: x}", 3, `spec.inject.spec.hostname.$patch`, "cannot be used for a single value; write {$onConflict: KeepPod, value: V}"},
	{"a scalar with an unknown directive", "inject:\n  spec:\n    hostname: {$onConflct: Deny, value: x}", 3, `spec.inject.spec.hostname.$onConflct`, "did you mean $onConflict?"},
	{"a scalar with $if alone", "inject:\n  spec:\n    hostname: {$if: \"true\", value: x}", 3, `spec.inject.spec.hostname`, "An expression can leave one value out"},
	{"a scalar in a scalar", "inject:\n  spec:\n    hostname: {$onConflict: Deny, value: {$onConflict: Deny, value: x}}", 3, `spec.inject.spec.hostname.value`, "must be text; got an object"},
	{"a scalar of the wrong type", "inject:\n  spec:\n    priority: {$onConflict: Deny, value: high}", 3, `spec.inject.spec.priority.value`, "must be a whole number"},
	{"a scalar that keeps the pod's in a required template", "match: {}\nrequired: true\ninject: {spec: {hostname: {$onConflict: KeepPod, value: x}}}", 3, `spec.inject.spec.hostname.$onConflict`, "must be Deny or Overwrite"},
	{"a scalar inside one value", "inject:\n  spec:\n    tolerations:\n    - key: {$onConflict: Deny, value: x}", 4, `spec.inject.spec.tolerations[0].key.$onConflict`, "one value"},
	{"a scalar inside a variable", "inject:\n  spec:\n    containers:\n    - name: a\n      env: [{name: A, value: {$onConflict: Deny, value: x}}]", 5, `spec.inject.spec.containers[0].env[0].value.$onConflict`, "one value"},
	{"a name with a directive", "inject:\n  spec:\n    volumes:\n    - name: {$onConflict: Deny, value: x}", 4, `spec.inject.spec.volumes[0].name`, "names the item, and can have no directive"},
	{"an image with a directive", "inject:\n  spec:\n    containers:\n    - name: a\n      image: {$onConflict: Deny, value: x}", 5, `spec.inject.spec.containers[0].image`, "put $onConflict on the container"},
	{"an item of a list of texts with a directive", "inject:\n  spec:\n    containers:\n    - name: a\n      args: [{$onConflict: Deny, value: x}]", 5, `spec.inject.spec.containers[0].args[0].$onConflict`, "one value"},
	{"$each elsewhere", "inject:\n  spec:\n    initContainers:\n    - {$each: Init, env: [{name: A}]}", 4, `spec.inject.spec.initContainers[0].$each`, "only for items of spec.containers"},
	{"$each of something else", "inject:\n  spec:\n    containers:\n    - {$each: Apps, env: [{name: A}]}", 4, `spec.inject.spec.containers[0].$each`, "must be App, Init or All"},
	{"$each with an image", "inject:\n  spec:\n    containers:\n    - {$each: App, image: a}", 4, `spec.inject.spec.containers[0].image`, "cannot have an image"},
	{"$for on no item", "inject:\n  spec:\n    securityContext: {$for: \"x in [1]\"}", 3, `spec.inject.spec.securityContext.$for`, "only for items of a list"},
	{"$for without in", "inject:\n  spec:\n    volumes:\n    - {$for: x, name: a}", 4, `spec.inject.spec.volumes[0].$for`, "NAME in EXPRESSION"},
	{"$for over text", "inject:\n  spec:\n    volumes:\n    - {$for: x in 'abc', name: a}", 4, `spec.inject.spec.volumes[0].$for`, "must give a list or a map"},
	{"$for with a taken name", "inject:\n  spec:\n    volumes:\n    - {$for: 'pod in [1]', name: a}", 4, `spec.inject.spec.volumes[0].$for`, "the name pod is taken"},
	{"$for and $each", "inject:\n  spec:\n    containers:\n    - {$for: 'x in [1]', $each: App}", 4, `spec.inject.spec.containers[0]`, "both $for and $each"},
	{"an $if that gives text", "inject:\n  spec: {$if: \"'a'\"}", 2, "spec.inject.spec.$if", "must give true or false"},
	{"an $if in ${}", "inject:\n  spec: {$if: \"${true}\"}", 2, "spec.inject.spec.$if", "remove the ${}"},
	{"an item without its key", "inject:\n  spec:\n    volumes:\n    - {emptyDir: {}}", 4, "spec.inject.spec.volumes[0]", "needs name"},
	{"two items of one key", "inject:\n  spec:\n    volumes:\n    - {name: a}\n    - {name: a}", 5, "spec.inject.spec.volumes[1]", `the same name "a"`},

	{"an expression that does not parse", "inject:\n  spec: {nodeName: \"${1 +}\"}", 2, "spec.inject.spec.nodeName", "Syntax error"},
	{"an expression that is not closed", "inject:\n  spec: {nodeName: \"${'}\"}", 2, "spec.inject.spec.nodeName", "without its }"},
	{"an empty expression", "inject:\n  spec: {nodeName: \"${ }\"}", 2, "spec.inject.spec.nodeName", "no expression"},
	{"a shell variable", "inject:\n  spec: {nodeName: \"${HOME}\"}", 2, "spec.inject.spec.nodeName", "write $${HOME}"},
	{"a name that is not there", "inject:\n  spec: {nodeName: \"${pods.x}\"}", 2, "spec.inject.spec.nodeName", "did you mean pod?"},
	{"a field that pods do not have", "inject:\n  spec: {nodeName: \"${pod.spec.nodeNam}\"}", 2, "spec.inject.spec.nodeName", `in the expression "pod.spec.>>>nodeNam": pod.spec has no field nodeNam; did you mean nodeName?`},
	{"an optional field that pods do not have", "matchConditions: [{name: a, expression: '!pod.spec.?hostNetwrk.orValue(false)'}]\ninject: {}", 1, "spec.matchConditions[0].expression", "did you mean hostNetwork?"},
	{"a field that containers do not have", "inject:\n  spec:\n    containers:\n    - {$each: App, $if: container.imag == 'a', env: [{name: A}]}", 4, "spec.inject.spec.containers[0].$if", "did you mean image?"},
	{"a field of pods that the webhook does not read", "inject:\n  spec: {nodeName: \"${pod.metadata.managedFields[0].manager}\"}", 2, "spec.inject.spec.nodeName", `in the expression "pod.metadata.>>>managedFields[0].manager": pod.metadata has no field managedFields; there are `},
	{"a field that namespaces do not have", "inject:\n  spec: {nodeName: \"${namespaceObject.metadata.nam}\"}", 2, "spec.inject.spec.nodeName", "namespaceObject.metadata has no field nam; did you mean name?"},
	{"a map of mixed types", "inject:\n  metadata: {annotations: {a: \"${toJson({'a': 1, 'b': 'c'})}\"}}", 2, "spec.inject.metadata.annotations.a", "wrap its values in dyn()"},
	{"a mark in a long expression of several lines", "variables:\n- name: a\n  expression: |\n    [1, 2, 3].exists(x, x > 1) &&\n    pod.spec.hostNetwork && [1, 2, 3].all(x, x + nope > 0) && [4, 5, 6].all(x, x > 0) && [7, 8, 9].all(x, x > 0)\ninject: {}", 4, "spec.variables[0].expression", `l(x, x + >>>nope > 0) && [4`},
	{"each without $", "inject:\n  spec:\n    containers:\n    - {each: App, env: [{name: A}]}", 4, "spec.inject.spec.containers[0].each", "did you mean $each?"},
	{"the length of other languages", "inject:\n  spec: {priority: \"${pod.spec.containers.length()}\"}", 2, "spec.inject.spec.priority", "; write size()"},
	{"a function that is near none", "inject:\n  spec: {nodeName: \"${pod.spec.containers.zzzzzz()}\"}", 2, "spec.inject.spec.nodeName", "; there is no such function (all of them: docs/reference/functions.md)"},
	{"= in a comparison", "matchConditions: [{name: a, expression: \"pod.spec.nodeName = 'a'\"}]\ninject: {}", 1, "spec.matchConditions[0].expression", "; to compare write =="},
	{"the and of other languages", "matchConditions: [{name: a, expression: \"true and false\"}]\ninject: {}", 1, "spec.matchConditions[0].expression", "; write && for and, || for or, ! for not"},
	{"a comparison with null", "parameters: [{name: a, type: string}]\nmatchConditions: [{name: a, expression: \"params.a != null\"}]\ninject: {}", 2, "spec.matchConditions[0].expression", "; to ask whether a field is there write has(FIELD)"},
	{"text and a number", "parameters: [{name: a, type: integer}]\ninject: {spec: {nodeName: \"${'a' + params.a}\"}}", 2, "spec.inject.spec.nodeName", "; both sides must be of one type: write string(…), int(…) or double(…) around one"},
	{"a key of a list", "parameters: [{name: a, type: list, items: string}]\ninject: {spec: {nodeName: \"${params.a['b']}\"}}", 2, "spec.inject.spec.nodeName", "; an item of a list is read by its number, as in LIST[0]"},
	{"a field of a list", "parameters: [{name: a, type: list, items: string}]\ninject: {spec: {nodeName: \"${params.a.b}\"}}", 2, "spec.inject.spec.nodeName", "; an item of a list is read by its number, as in LIST[0]"},
	{"a number as a key", "parameters: [{name: a, type: map, items: string}]\ninject: {spec: {nodeName: \"${params.a[0]}\"}}", 2, "spec.inject.spec.nodeName", "; a value of a map is read by its key, as in MAP['KEY']"},
	{"a parameter without params", "parameters: [{name: a, type: string}]\ninject: {spec: {nodeName: \"${a}\"}}", 2, "spec.inject.spec.nodeName", "; write params.a"},
	{"a variable without variables", "variables: [{name: a, expression: \"'b'\"}]\ninject: {spec: {nodeName: \"${a}\"}}", 2, "spec.inject.spec.nodeName", "; write variables.a"},
	{"an expression that YAML reads as a tag", "variables:\n- name: a\n  expression: !has(params.b)\ninject: {}", 3, "spec.variables[0].expression", "YAML reads !has(params.b) as a tag; quote the text"},
	{"a condition that YAML reads as a tag", "matchConditions:\n- name: a\n  expression: !has(params.b)\ninject: {}", 3, "spec.matchConditions[0].expression", "YAML reads !has(params.b) as a tag; quote the text"},
	{"a selector's operator", "match: {podSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}}\ninject: {}", 1, "spec.match.podSelector", "; operators are In, NotIn, Exists, DoesNotExist"},
	{"contains of a list", "matchConditions: [{name: a, expression: \"['a'].contains('a')\"}]\ninject: {}", 1, "spec.matchConditions[0].expression", "; for an item of a list write ITEM in LIST"},
	{"a function that is not there", "inject:\n  spec: {nodeName: \"${shelQuote('a')}\"}", 2, "spec.inject.spec.nodeName", "did you mean shellQuote?"},
	{"a question about permissions", "matchConditions: [{name: a, expression: \"true || dyn(pod).serviceAccount('a', 'b').allowed()\"}]\ninject: {}", 1, "spec.matchConditions[0].expression", "undeclared reference to 'serviceAccount'"},
	{"container outside of $each", "inject:\n  spec: {nodeName: \"${container.name}\"}", 2, "spec.inject.spec.nodeName", "items with $each"},
	{"the reserved word namespace", "inject:\n  spec: {nodeName: \"${namespace.metadata.name}\"}", 2, "spec.inject.spec.nodeName", "namespaceObject"},
	{"a parameter that is not declared", "parameters: [{name: level, type: string}]\ninject:\n  spec: {nodeName: \"${params.levl}\"}", 3, "spec.inject.spec.nodeName", "did you mean level?"},
	{"a variable before its declaration", "variables:\n- {name: a, expression: variables.b}\n- {name: b, expression: '1'}\ninject: {}", 2, "spec.variables[0].expression", "no variable b is declared before this"},
	{"a variable that is there twice", "variables:\n- {name: a, expression: '1'}\n- {name: a, expression: '1'}\ninject: {}", 3, "spec.variables[1].name", "twice"},
	{"types that do not go together", "inject:\n  spec: {nodeName: \"${1 + 'a'}\"}", 2, "spec.inject.spec.nodeName", "no matching overload"},
	{"a list where text is wanted", "inject:\n  spec: {nodeName: \"${['a']}\"}", 2, "spec.inject.spec.nodeName", "must give text"},
	{"text where a number is wanted by an expression", "inject:\n  spec: {priority: \"${'1'}\"}", 2, "spec.inject.spec.priority", "must give a whole number"},
	{"a number in a text where only a number fits", "inject:\n  spec: {priority: \"1${1}\"}", 2, "spec.inject.spec.priority", "let the expression stand alone"},
	{"a list inside a text", "inject:\n  spec: {nodeName: \"a${['a']}\"}", 2, "spec.inject.spec.nodeName", "inside a text"},
	{"the line of a block of text", "inject:\n  metadata:\n    annotations:\n      a: |\n        first\n        ${nope}", 6, "spec.inject.metadata.annotations.a", "nope"},
	{"an expression as a field's name", "inject:\n  spec: {\"${'nodeName'}\": a}", 2, `spec.inject.spec["${'nodeName'}"]`, "keys with expressions are for maps"},
	{"a condition that is no boolean", "matchConditions: [{name: a, expression: '1'}]\ninject: {}", 1, "spec.matchConditions[0].expression", "must give true or false"},
	{"a condition without an expression", "matchConditions: [{name: a}]\ninject: {}", 1, "spec.matchConditions[0]", "needs an expression"},
	{"validations of one name", "validations:\n- {name: a, expression: 'true'}\n- {name: a, expression: 'true'}\ninject: {}", 3, "spec.validations[1].name", "twice"},
	{"a validation that is no boolean", "validations: [{name: a, expression: '1 + 1'}]\ninject: {}", 1, "spec.validations[0].expression", "must give true or false"},
	{"a message that is no text", "validations: [{name: a, expression: 'true', messageExpression: 'pod.spek'}]\ninject: {}", 1, "spec.validations[0].messageExpression", "spek"},
	{"conditions of one name", "matchConditions:\n- {name: a, expression: 'true'}\n- {name: a, expression: 'true'}\ninject: {}", 3, "spec.matchConditions[1].name", "twice"},
	{"a field that not every pod has", "inject:\n  spec: {nodeName: \"${pod.metadata.labels.app}\"}", 2, "spec.inject.spec.nodeName", `fails for a minimal pod: no such key: labels, in the expression "pod.metadata.labels>>>.app"`},
	{"a parameter that may be absent", "parameters: [{name: a, type: string}]\ninject:\n  spec: {nodeName: \"${params.a}\"}", 3, "spec.inject.spec.nodeName", "the parameter a is not set"},
	{"a made-up value that does not do", "parameters: [{name: a, type: string, required: true}]\ninject:\n  spec: {priority: \"${int(params.a)}\"}", 3, "spec.inject.spec.priority", "made-up values for a"},
	{"a value of unknown shape", "inject:\n  spec: {volumes: \"${[{'name': dyn('a'), 'emptyDirr': dyn({})}]}\"}", 2, "spec.inject.spec.volumes", `did you mean emptyDir?`},
	{"a key that begins with $ in a value", "inject:\n  spec: {volumes: \"${dyn([{'name': 'a', '$patch': 'delete'}])}\"}", 2, "spec.inject.spec.volumes", `may begin with $`},
	{"an expression that costs too much", "variables: [{name: a, expression: '[1,2,3,4,5,6,7,8,9,10]'}]\ninject:\n  spec: {priority: \"${variables.a.map(a, variables.a.map(b, variables.a.map(c, variables.a.map(d, variables.a.map(e, variables.a.map(f, 1)))))).size()}\"}", 3, "spec.inject.spec.priority", "costs more than"},

	{"a second annotation that is no key", "parameters: [{name: a, type: string, annotation: 'a b'}]\ninject: {}", 1, "spec.parameters[0].annotation", `must be the key of an annotation, such as old.example.com/role; got "a b"`},
	{"a second annotation of Pillion's own", "parameters: [{name: a, type: string, annotation: x.pillion.dev/a}]\ninject: {}", 1, "spec.parameters[0].annotation", "is reserved for Pillion"},
	{"a second annotation of two parameters", "parameters:\n- {name: a, type: string, annotation: a/b}\n- {name: b, type: string, annotation: a/b}\ninject: {}", 3, "spec.parameters[1].annotation", "names the annotation a/b, which the parameter a already has"},
	{"a map's second annotation without its key", "parameters: [{name: a, type: map, items: string, annotation: a/b}]\ninject: {}", 1, "spec.parameters[0].annotation", "must end in KEY"},
	{"a parameter without a type", "parameters: [{name: a}]\ninject: {}", 1, "spec.parameters[0].type", "is missing"},
	{"an unknown type", "parameters: [{name: a, type: int}]\ninject: {}", 1, "spec.parameters[0].type", "must be one of string"},
	{"a parameter's bad name", "parameters: [{name: log-level, type: string}]\ninject: {}", 1, "spec.parameters[0].name", "lowerCamelCase"},
	{"a parameter named as CEL's word", "parameters: [{name: in, type: string}]\ninject: {}", 1, "spec.parameters[0].name", "none of in"},
	{"a list without items", "parameters: [{name: a, type: list}]\ninject: {}", 1, "spec.parameters[0].items", "items: string"},
	{"a list of lists", "parameters: [{name: a, type: list, items: list}]\ninject: {}", 1, "spec.parameters[0].items", "must be a scalar type"},
	{"items of a string", "parameters: [{name: a, type: string, items: string}]\ninject: {}", 1, "spec.parameters[0].items", "only for the types list and map"},
	{"a list's constraints in the wrong place", "parameters: [{name: a, type: list, items: integer, minimum: 1}]\ninject: {}", 1, "spec.parameters[0]", "belong to its items"},
	{"an unknown field of items", "parameters: [{name: a, type: list, items: {type: integer, min: 1}}]\ninject: {}", 1, "spec.parameters[0].items.min", "unknown field"},
	{"a pattern for a number", "parameters: [{name: a, type: integer, pattern: '1'}]\ninject: {}", 1, "spec.parameters[0].pattern", "not for the type integer"},
	{"a bad pattern", "parameters: [{name: a, type: string, pattern: '('}]\ninject: {}", 1, "spec.parameters[0].pattern", "not a regular expression"},
	{"a minimum for text", "parameters: [{name: a, type: string, minimum: 1}]\ninject: {}", 1, "spec.parameters[0].minimum", "not for the type string"},
	{"a minimum above the maximum", "parameters: [{name: a, type: quantity, minimum: 1Gi, maximum: 1Mi}]\ninject: {}", 1, "spec.parameters[0].minimum", "greater than the maximum"},
	{"a bound of another type", "parameters: [{name: a, type: duration, maximum: 5 minutes}]\ninject: {}", 1, "spec.parameters[0].maximum", "must be a duration"},
	{"an enum of another type", "parameters: [{name: a, type: integer, enum: [x]}]\ninject: {}", 1, "spec.parameters[0].enum", "must be a whole number"},
	{"a default outside its enum", "parameters:\n- name: a\n  type: string\n  enum: [v, w]\n  default: z\ninject: {}", 5, "spec.parameters[0].default", `must be one of v, w; got "z"`},
	{"a default above its maximum", "parameters: [{name: a, type: quantity, maximum: 1Mi, default: 1Gi}]\ninject: {}", 1, "spec.parameters[0].default", "at most 1Mi"},
	{"a default that YAML has changed", "parameters: [{name: a, type: string, default: 1.10}]\ninject: {}", 1, "spec.parameters[0].default", "quote it"},
	{"an unknown level", "parameters: [{name: a, type: string, setBy: [Team]}]\ninject: {}", 1, "spec.parameters[0].setBy[0]", "must be Namespace or Pod"},
	{"parameters of one annotation", "parameters:\n- {name: caURL, type: string}\n- {name: caUrl, type: string}\ninject: {}", 3, "spec.parameters[1].name", "gives the annotation t.pillion.dev/ca-url, which the parameter caURL already has; use another name"},
}

func TestRequiredTemplatesExtendContainersOfComputedNames(t *testing.T) {
	compiled(t, "match: {}\nrequired: true\ninject:\n  spec:\n    containers:\n    - {$each: App, env: [{name: A}]}\n    - {$for: c in pod.spec.containers, name: \"${c.name}\", env: [{name: B}]}\n    - {name: a, image: \"a:${'1'}\"}")
}

func TestEachMistakeIsNamedWithItsPathAndLine(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, _, err := Compile(manifestOf(m.spec), Options{Source: "dir/t.yaml"})
			var bad *CompileError
			if !errors.As(err, &bad) {
				t.Fatalf("compiled; error %v", err)
			}
			for _, p := range bad.Problems {
				line := m.line + 4
				if m.line == 0 {
					line = p.Line
				}
				if p.Path == m.path && p.Line == line && strings.Contains(p.Message, m.says) {
					return
				}
			}
			t.Errorf("want %s on line %d to say %q; got\n%v", m.path, m.line+4, m.says, err)
		})
	}
}

func TestAllMistakesAreReportedTogetherInTheOrderOfTheFile(t *testing.T) {
	_, _, err := Compile(manifestOf(`
ordr: 1
parameters: [{name: a, type: int}]
variables: [{name: b, expression: nope}]
inject:
  spec:
    volumes: {}
    nodeName: ${params.x}`), Options{Source: "t.yaml", FirstLine: 101})
	want := []string{
		"t.yaml:105: template t: spec.ordr: unknown field; did you mean order?",
		`t.yaml:106: template t: spec.parameters[0].type: must be one of string, integer, number, boolean, quantity, duration, image, json, list, map; got "int"`,
		`t.yaml:107: template t: spec.variables[0].expression: in the expression ">>>nope": undeclared reference to 'nope'`,
		"t.yaml:110: template t: spec.inject.spec.volumes: must be a list; got an object",
		`t.yaml:111: template t: spec.inject.spec.nodeName: in the expression "params.>>>x": no parameter x is declared`,
	}
	got := strings.Split(fmt.Sprint(err), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%v", len(got), len(want), err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestAManifestThatIsNoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {"", "must be an object; got null"},
		"a list":            {"[1]", "must be an object; got a list"},
		"no YAML":           {"a: b: c", "t.yaml:1: reading the manifest as YAML: mapping values are not allowed"},
		"no YAML far below": {"a: b\nc: d\ne: f: g\n", "t.yaml:3: "},
		"two documents":     {"a: 1\n---\nb: 1\n", "several documents"},
		"another kind":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", `t.yaml:2: template a: kind: must be SidecarTemplate or NamespacedSidecarTemplate; got "Pod"`},
		"a bad name":        {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: A_b}\nspec: {inject: {}}", "t.yaml:3: metadata.name: must be a DNS label"},
		"no spec":           {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}", "spec: is missing"},
		"a bad metadata":    {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a, lables: {}}\nspec: {inject: {}}", "t.yaml:3: template a: metadata.lables: unknown field; did you mean labels?"},
		"too many bytes":    {strings.Repeat("#", manifest.MaxBytes+1), "at most 1048576 are allowed"},
		"a loop of aliases": {"a: &a [*a]", "value contains itself"},
		"a bomb of aliases": {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e]", "excessive aliasing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Compile([]byte(c.text), Options{Source: "t.yaml"})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestAnObjectOfTheClusterHasNoLinesInItsErrors(t *testing.T) {
	_, _, err := Compile([]byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"a","uid":"x"},"spec":{"ordr":1,"inject":{}},"status":{"new":1}}`), Options{Source: "SidecarTemplate/a"})
	want := "SidecarTemplate/a: template a: spec.ordr: unknown field; did you mean order?"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// An object of the cluster has no lines to sort its mistakes by.
func TestTheMistakesOfAnObjectComeInOneOrder(t *testing.T) {
	text := []byte(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"a"},"spec":{"inject":{"spec":{"containers":[
		{"$each":"App","name":"a","image":"a","$position":"First","$patch":"delete"}]}}}}`)
	_, _, first := Compile(text, Options{Source: "SidecarTemplate/a"})
	if strings.Count(fmt.Sprint(first), "\n") != 3 {
		t.Fatalf("want four mistakes:\n%v", first)
	}
	for range 20 {
		if _, _, err := Compile(text, Options{Source: "SidecarTemplate/a"}); err.Error() != first.Error() {
			t.Fatalf("one time\n%v\nand another time\n%v", first, err)
		}
	}
}

func TestYAMLAndJSONOfOneTemplateHaveOneHash(t *testing.T) {
	yaml := compiled(t, "# a comment\ninject: {metadata: {labels: {b: x, a: \"1\"}}}\norder: 5\nparameters: [{name: p, type: integer, default: 1}]")
	json := compiledWith(t, []byte(`{"kind":"SidecarTemplate","apiVersion":"pillion.dev/v1alpha1","metadata":{"name":"t","generation":4},
		"spec":{"onConflict":"Deny","onError":"Deny","order":5,"inject":{"metadata":{"labels":{"a":"1","b":"x"}}},"parameters":[{"default":1,"type":"integer","name":"p","setBy":["Namespace","Pod"]}]}}`), Options{Source: "SidecarTemplate/t"})
	if yaml.Hash() != json.Hash() || len(yaml.Hash()) != 16 {
		t.Errorf("hashes %q and %q", yaml.Hash(), json.Hash())
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"a parameter that nothing reads":           {"parameters:\n- {name: a, type: string}\ninject: {}", "t.yaml:6: template t: spec.parameters[0]: the parameter a is declared and never used"},
		"an expression as in Helm":                 {"parameters: [{name: a, type: string, default: x}]\ninject: {metadata: {labels: {h: \"{{ params.a }}\", m: \"${params.a}\"}}}", `t.yaml:6: template t: spec.inject.metadata.labels.h: has the plain text "{{ params.a }}", which nothing replaces; an expression is written ${…}`},
		"an expression without braces":             {"parameters: [{name: a, type: string, default: x}]\ninject: {metadata: {labels: {h: \"$params.a\", m: \"${params.a}\"}}}", `t.yaml:6: template t: spec.inject.metadata.labels.h: has the plain text "$params.a", which nothing replaces; an expression is written ${…}`},
		"an expression as in Tekton":               {"parameters: [{name: a, type: string, default: x}]\ninject: {metadata: {labels: {h: \"x-$(params.a)\", m: \"${params.a}\"}}}", `t.yaml:6: template t: spec.inject.metadata.labels.h: has the plain text "$(params.a)", which nothing replaces; an expression is written ${…}`},
		"a key that is a boolean to YAML":          {"inject: {metadata: {labels: {n: x}}}", "t.yaml:5: template t: spec.inject.metadata.labels.n: YAML reads the key n as a boolean; quote it"},
		"a pod's field of another type":            {"inject:\n  spec: {$if: \"pod.spec.?hostNetwork.orValue(false) == 'true'\"}", `t.yaml:6: template t: spec.inject.spec.$if: in the expression "pod.spec.?hostNetwork.orValue(false) >>>== 'true'": found no matching overload`},
		"a match of everything":                    {"match: {}\ninject: {}", "t.yaml:5: template t: spec.match: selects every namespace that is not excluded, default included: while Pillion does not answer, new pods there are created without the sidecar"},
		"a required match of everything":           {"match: {podSelector: {matchLabels: {a: b}}}\nrequired: true\ninject: {}", "spec.match: selects every namespace that is not excluded, default included: while Pillion does not answer, new pods there are refused"},
		"a required parameter without an example":  {"parameters: [{name: a, type: string, pattern: 'zz-[0-9]+', required: true}]\ninject: {metadata: {labels: {a: \"${params.a}\"}}}", "the template is not test-rendered"},
		"a parameter that only a condition reads":  {"parameters: [{name: a, type: boolean, default: true}]\nmatchConditions: [{name: a, expression: params.a}]\ninject: {}", ""},
		"a parameter that only a variable reads":   {"parameters: [{name: a, type: string}]\nvariables: [{name: v, expression: 'params.?a.orValue(\"\")'}]\ninject: {}", ""},
		"parameters that are read as one":          {"parameters: [{name: a, type: string}]\ninject: {metadata: {annotations: {a: \"${toJson(params)}\"}}}", ""},
		"an example that makes a test render work": {"parameters: [{name: a, type: string, pattern: 'zz-[0-9]+', required: true, example: zz-1}]\ninject: {metadata: {labels: {a: \"${params.a}\"}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := Compile(manifestOf(c.spec), Options{Source: "t.yaml"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if all := strings.Join(got, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("warnings %q, want %q", all, c.want)
			}
		})
	}
}

func TestNobodyMaySetTheParametersOfARequiredTemplateUnlessItSaysSo(t *testing.T) {
	tmpl := compiled(t, "match: {}\nrequired: true\nparameters:\n- {name: a, type: string, default: x}\n- {name: b, type: string, default: x, setBy: [Pod]}\ninject: {metadata: {labels: {a: \"${params.a}\", b: \"${params.b}\"}}}")
	if a, b := tmpl.Parameters()[0].SetBy, tmpl.Parameters()[1].SetBy; len(a) != 0 || len(b) != 1 {
		t.Errorf("set by %v and %v; want nobody, and the pod", a, b)
	}
	_, err := tmpl.Render(t.Context(), Input{Pod: onePod(t, map[string]string{"t.pillion.dev/a": "y"})})
	if err == nil || !strings.Contains(err.Error(), "may be set by nobody") {
		t.Errorf("error %v", err)
	}
	rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/b": "y"})})
}

func TestATemplateThatLetsUnknownFieldsThroughMayReadThem(t *testing.T) {
	tmpl := compiled(t, "allowUnknownFields: true\ninject:\n  spec:\n    containers:\n    - {$each: App, env: [{name: A, value: \"${container.?newField.orValue('none')}-${pod.spec.?new.orValue('none')}\"}]}")
	pod := onePod(t, nil)
	pod["spec"].(map[string]any)["new"] = "x"
	wantFragment(t, rendered(t, tmpl, Input{Pod: pod}).Fragment, `{"spec":{"containers":[{"name":"app","env":[{"name":"A","value":"none-x"}]}]}}`)
}

func TestPartsOfThePodMayBeInjectedAgain(t *testing.T) {
	tmpl := compiled(t, "inject:\n  spec:\n    volumes: >-\n      ${pod.spec.?volumes.orValue([]).filter(v, v.name == 'a').map(v, {'name': dyn('b'), 'emptyDir': v.?emptyDir.orValue(dyn({}))})}\n    tolerations: ${pod.spec.?tolerations}")
	pod := onePod(t, nil)
	spec := pod["spec"].(map[string]any)
	spec["volumes"] = []any{map[string]any{"name": "a", "emptyDir": map[string]any{"medium": "Memory"}}}
	spec["tolerations"] = []any{map[string]any{"key": "k"}}
	wantFragment(t, rendered(t, tmpl, Input{Pod: pod}).Fragment, `{"spec":{"tolerations":[{"key":"k"}],"volumes":[{"name":"b","emptyDir":{"medium":"Memory"}}]}}`)
}

func TestABrokenTemplateTellsWhichPodsWantIt(t *testing.T) {
	_, _, err := Compile(manifestOf("match: {namespaceSelector: {matchLabels: {a: b}}}\navailableTo: {namespaceSelector: {matchLabels: {a: b}}}\nrequired: true\ninject: {spec: {nodeNam: x}}"), Options{})
	var bad *CompileError
	if !errors.As(err, &bad) || bad.Broken == nil {
		t.Fatalf("error %v", err)
	}
	namespace, _, ok := bad.Broken.Match()
	if b := bad.Broken; !ok || namespace.String() != "a=b" || !b.Spec().Required || b.Spec().OnError != "Deny" || b.AvailableTo(nil) || !b.AvailableTo(map[string]string{"a": "b"}) {
		t.Errorf("broken %+v, matches %v %v", b, namespace, ok)
	}
	for _, text := range []string{"", "a: b: c", "[]"} {
		if _, _, err := Compile([]byte(text), Options{}); !errors.As(err, &bad) || bad.Broken != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A selector that lost the part that could not be read selects more than was meant: all
// pods of the cluster, as a rule.
func TestABrokenTemplateMatchesNothingByASelectorThatCannotBeRead(t *testing.T) {
	for _, spec := range []string{
		"match: {namespaceSelektor: {matchLabels: {team: payments}}}",
		"match: {namespaceSelector: {matchLabels: [team, payments]}}",
		"match: {podSelector: {matchLabels: {app: y}}, namespaceSelector: {matchLabels: {a: b}}}",
		"match: {podSelector: {matchExpressions: [{key: a, operator: Inn, values: [b]}]}}",
		"match: {podSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {c: d}}}",
		"match: [podSelector]",
		"required: true\nmatch: {podSelectors: {}}",
	} {
		_, _, err := Compile(manifestOf(spec+"\ninject: {spec: {nodeName: x}}"), Options{})
		var bad *CompileError
		if !errors.As(err, &bad) || bad.Broken == nil {
			t.Fatalf("%s: error %v", spec, err)
		}
		if namespace, pod, ok := bad.Broken.Match(); ok {
			t.Errorf("%s: it matches namespaces %q, pods %q", spec, namespace, pod)
		}
	}
}

func TestUnknownFieldsMayBeAllowed(t *testing.T) {
	tmpl := compiled(t, "allowUnknownFields: true\ninject:\n  spec:\n    newField: {a: [1, {b: \"${'x' + 'y'}\"}]}\n    volumes: \"${[{'name': dyn('a'), 'newSource': dyn({'n': 1})}]}\"")
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment,
		`{"spec":{"newField":{"a":[1,{"b":"xy"}]},"volumes":[{"name":"a","newSource":{"n":1}}]}}`)
}

func TestSelectors(t *testing.T) {
	tmpl := compiled(t, "availableTo: {namespaceSelector: {matchLabels: {a: b}}}\nmatch: {namespaceSelector: {matchLabels: {c: d}}}\ninject: {}")
	if tmpl.AvailableTo(nil) || !tmpl.AvailableTo(map[string]string{"a": "b"}) {
		t.Error("availableTo does not select by label")
	}
	namespace, pod, ok := tmpl.Match()
	if !ok || namespace.String() != "c=d" || !pod.Empty() {
		t.Errorf("match: %v, %v, %v", namespace, pod, ok)
	}
	open := compiled(t, "inject: {}")
	if _, _, ok := open.Match(); ok || !open.AvailableTo(nil) {
		t.Error("a template without selectors is available to all and matches nothing")
	}
}

func TestParametersAreToldAsATeamMeetsThem(t *testing.T) {
	tmpl := compiledWith(t, read(t, "fluent-bit.yaml"), Options{})
	got := map[string]string{}
	for _, p := range tmpl.Parameters() {
		got[p.Annotation] = fmt.Sprintf("%s by %v", p.Allowed, p.SetBy)
	}
	for annotation, want := range map[string]string{
		"fluent-bit.pillion.dev/image":      "an image reference such as registry.example.com/team/app:1.2 by [Namespace]",
		"fluent-bit.pillion.dev/log-level":  "one of error, warn, info, debug by [Namespace Pod]",
		"fluent-bit.pillion.dev/memory":     "a quantity such as 64Mi or 100m, at most 512Mi by [Namespace Pod]",
		"fluent-bit.pillion.dev/output.KEY": "one annotation for each key, its value text by [Namespace Pod]",
	} {
		if got[annotation] != want {
			t.Errorf("%s: %q, want %q", annotation, got[annotation], want)
		}
	}
}

// As kubectl get sidecartemplates prints them.
func TestTheItemsOfAListAreManifestsWithTheLineOfEach(t *testing.T) {
	const good = "apiVersion: pillion.dev/v1alpha1\n  kind: SidecarTemplate\n  metadata: {name: NAME}\n  spec:\n    ORDER: 1\n    inject:\n      metadata:\n        annotations:\n          a: |\n            text\n\n            # and no comment\n"
	item := func(name, order string) string {
		return strings.NewReplacer("NAME", name, "ORDER", order).Replace(good)
	}
	asJSON := func(text string) string {
		converted, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, converted, "", "  "); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	flow := func(name, order string) string {
		converted, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(item(name, order), "\n  ", "\n")))
		if err != nil {
			t.Fatal(err)
		}
		return string(converted)
	}
	list := "apiVersion: v1\nitems:\n- " + item("a", "order") + "# between\n- " + item("b", "ordr") + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	indented := "apiVersion: v1\nkind: SidecarTemplateList\nitems:\n" + strings.ReplaceAll("- "+item("a", "order")+"- "+item("b", "ordr"), "\n", "\n  ")
	indented = strings.Replace(indented, "items:\n- ", "items:\n  - ", 1)
	for _, c := range []struct {
		what, text string
		line       int
	}{
		{"block style", list, 16}, {"indented", indented, 16}, {"JSON", asJSON(list), 21}, {"CRLF", strings.ReplaceAll(list, "\n", "\r\n"), 16},
		{"a second document", "kind: List\nitems: []\n---\n" + list, 19},
		{"flow style", "kind: List\nitems: [" + flow("a", "order") + ",\n  " + flow("b", "ordr") + "]\n", 3},
	} {
		docs := ParseFile([]byte(c.text))
		if len(docs) != 2 {
			t.Errorf("%s: %d manifests\n%s", c.what, len(docs), c.text)
			continue
		}
		tmpl, _, err := Compile(docs[0].Manifest, Options{Source: "f", FirstLine: docs[0].Line})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		} else if got := rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment; !strings.Contains(fmt.Sprint(fragmenttest.JSON(got)), "text\n\n# and no comment") {
			t.Errorf("%s: fragment %v", c.what, got)
		}
		_, _, err = Compile(docs[1].Manifest, Options{Source: "f", FirstLine: docs[1].Line})
		if want := fmt.Sprintf("f:%d: template b: spec.ordr: unknown field", c.line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v; want %s\n%s", c.what, err, want, c.text)
		}
	}
	for _, text := range []string{"kind: List\nitems: {}\n", "kind: Pod\nitems: [] # List\n", "kind: List\nitems: x: y\n"} {
		if docs := ParseFile([]byte(text)); len(docs) != 1 || string(docs[0].Manifest) != text {
			t.Errorf("%q: %d manifests", text, len(docs))
		}
	}
}

func TestErrorsOfALaterDocumentHaveTheFilesLines(t *testing.T) {
	docs := ParseFile([]byte("a: 1\n---\napiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}\nspec:\n  ordr: 1\n  inject: {}\n"))
	if len(docs) != 2 {
		t.Fatalf("%d documents", len(docs))
	}
	_, _, err := Compile(docs[1].Manifest, Options{Source: "f", FirstLine: docs[1].Line})
	if err == nil || !strings.HasPrefix(err.Error(), "f:7: ") {
		t.Errorf("error %v, want line 7", err)
	}
}

func TestTheGroupOfAManifestIsPillions(t *testing.T) {
	const rest = "\nkind: SidecarTemplate\nmetadata: {name: t}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"
	for version, good := range map[string]bool{"pillion.dev/v1alpha1": true, "side.example.com/v1alpha1": false, "pillion.dev/v1": false} {
		if _, _, err := Compile([]byte("apiVersion: "+version+rest), Options{}); (err == nil) != good {
			t.Errorf("apiVersion %s: %v", version, err)
		}
	}
}

// Each expression is a program in memory. Everybody who reaches the port can send a
// template to the guard.
func TestATemplateHasSoManyExpressionsAtMost(t *testing.T) {
	manifest := func(n int, expr string) string {
		var env strings.Builder
		for i := range n {
			fmt.Fprintf(&env, ",{\"name\":\"A%d\",\"value\":\"${%s}\"}", i, expr)
		}
		return `{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"t"},"spec":{"inject":{"spec":{"initContainers":[{"name":"a","image":"x","env":[` + env.String()[1:] + `]}]}}}}`
	}
	if _, _, err := Compile([]byte(manifest(1000, "'x'")), Options{}); err != nil {
		t.Errorf("1000 expressions: %v", err)
	}
	for name, text := range map[string]string{
		"is one expression too many: a template may have 1000": manifest(5000, "'x'"),
		"is an expression of 20002 bytes; allowed are 16384":   manifest(1, "'"+strings.Repeat("x", 20_000)+"'"),
	} {
		_, _, err := Compile([]byte(text), Options{})
		if err == nil || strings.Count(err.Error(), name) != 1 || len(err.Error()) > 4096 {
			t.Errorf("%.4096v; want one line with %q", err, name)
		}
	}
}

func TestTheOperatingSystemsAreCheckedAndChangeNoHash(t *testing.T) {
	const spec = "inject: {metadata: {labels: {a: x}}}"
	for os, want := range map[string]string{
		"os: [linux, windows]\n": "",
		"os: []\n":               "spec.os: is empty; write linux, windows or both",
		"os: [Windows]\n":        `spec.os[0]: must be one of linux, windows; got "Windows"`,
		"os: [linux, linux]\n":   `spec.os[1]: lists "linux" twice`,
		"os: linux\n":            "spec.os: must be a list; got text",
	} {
		_, _, err := Compile(manifestOf(os+spec), Options{Source: "t.yaml"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", os, err, want)
		}
	}
	_, _, err := Compile(manifestOf("os: [linux, windows]\ninject: {metadata: {labels: {a: \"${pod.spec.?os.?name.orValue('linux') == 'windows' ? string(1 / 0) : 'x'}\"}}}"), Options{Source: "t.yaml"})
	if err == nil || !strings.Contains(err.Error(), "fails for a full pod for windows: ") {
		t.Errorf("what fails for Windows alone: %v", err)
	}
	plain, listed, both := compiled(t, spec), compiled(t, "os: [linux]\n"+spec), compiled(t, "os: [linux, windows]\n"+spec)
	if plain.Hash() != listed.Hash() || plain.Hash() != both.Hash() {
		t.Errorf("hashes %s, %s and %s of one rendering", plain.Hash(), listed.Hash(), both.Hash())
	}
	windows := map[string]any{"spec": map[string]any{"os": map[string]any{"name": "windows"}}}
	for _, c := range []*Template{plain, both} {
		if got := c.OtherSystem(windows) == ""; got != (c != plain) {
			t.Errorf("a pod for Windows gets %v: %t", c.Spec().OS, got)
		}
	}
}
