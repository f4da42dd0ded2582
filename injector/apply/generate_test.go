package apply

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// The generated pods come in two kinds. Realistic ones are as the API server sends
// them to a webhook: the function apiServer sets defaults and admits them. Hostile
// ones hold nulls, unknown fields, items without a name and names twice.

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func some(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

type yamlObject = map[string]any

func drawPod(t *rapid.T, hostile bool) map[string]any {
	spec := yamlObject{"containers": drawContainers(t, "c", pick(t, "containers", 1, 2, 3), hostile)}
	pod := yamlObject{"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": yamlObject{"name": "p"}}
	metadata := pod["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations"} {
		if some(t, name) {
			metadata[name] = yamlObject{pick(t, "key", "app", "a.b/c~d", "x"): pick(t, "value", "web", "", "z")}
		}
	}
	if some(t, "labels of Pillion") {
		// Forged by a tenant, or copied from a pod of another version of the template.
		labels, ok := metadata["labels"].(map[string]any)
		if !ok {
			labels = yamlObject{}
			metadata["labels"] = labels
		}
		for _, key := range []string{"pillion.dev/injected", "t0.pillion.dev/hash", "nobody.pillion.dev/hash", "not.ours.pillion.dev/hash"} {
			if some(t, key) {
				labels[key] = pick(t, "labelled", "true", "v1", "v0", "")
			}
		}
	}
	optional := map[string][]any{
		"hostname": {"h"}, "dnsPolicy": {"ClusterFirst", "None"}, "terminationGracePeriodSeconds": {json.Number("30"), json.Number("5")},
		"volumes":         {[]any{yamlObject{"name": "v0", "emptyDir": yamlObject{}}}, []any{yamlObject{"name": "shared", "hostPath": yamlObject{"path": "/x"}}}},
		"nodeSelector":    {yamlObject{"disk": "ssd"}},
		"securityContext": {yamlObject{}, yamlObject{"runAsUser": json.Number("1000")}, yamlObject{"supplementalGroups": []any{json.Number("1")}}},
		"tolerations":     {[]any{yamlObject{"key": "a", "operator": "Exists"}}},
		"brandNew":        {yamlObject{"big": json.Number("12345678901234567890"), "huge": json.Number("1e400")}},
		"hostAliases":     {[]any{yamlObject{"ip": "1.1.1.1", "hostnames": []any{"a"}}}},
		"priorityClassName": {
			"high"},
		"runtimeClassName": {"gvisor"},
		"resources":        {yamlObject{"limits": yamlObject{"cpu": "8"}}, yamlObject{"limits": yamlObject{"memory": "8Gi"}, "requests": yamlObject{"cpu": "3"}}},
		"affinity":         {yamlObject{}, yamlObject{"nodeAffinity": yamlObject{}}},
		"dnsConfig":        {yamlObject{"searches": []any{"a"}}},
	}
	optional["resources"] = append(optional["resources"], yamlObject{"requests": yamlObject{"cpu": "15m", "memory": "5Gi"}}, yamlObject{"limits": yamlObject{"cpu": "4", "memory": "8Gi"}, "requests": yamlObject{"cpu": "4", "memory": "8Gi"}})
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		if some(t, name) {
			spec[name] = pick(t, name, optional[name]...)
		}
	}
	if some(t, "init") {
		spec["initContainers"] = drawContainers(t, "i", 1, hostile)
	}
	if hostile {
		spoil(t, pod)
		return normal(pod)
	}
	apiServer(pod)
	return normal(pod)
}

// spoil makes a pod one that no API server would send.
func spoil(t *rapid.T, pod map[string]any) {
	spec, metadata := pod["spec"].(map[string]any), pod["metadata"].(map[string]any)
	for _, name := range []string{"volumes", "securityContext", "tolerations", "initContainers", "hostname", "affinity", "dnsConfig", "hostAliases"} {
		switch pick(t, "spoil "+name, "leave", "leave", "null", "empty") {
		case "null":
			spec[name] = nil
		case "empty":
			if _, ok := spec[name].([]any); ok {
				spec[name] = []any{}
			}
		}
	}
	switch pick(t, "spoil metadata", "leave", "null", "null annotations", "none") {
	case "null":
		pod["metadata"] = nil
	case "null annotations":
		metadata["annotations"], metadata["labels"] = nil, nil
	case "none":
		delete(pod, "metadata")
	}
	if some(t, "nameless") {
		spec["volumes"] = []any{yamlObject{"emptyDir": nil}, "text", nil, yamlObject{"name": "twice"}, yamlObject{"name": "twice", "emptyDir": yamlObject{}}}
	}
	pod[pick(t, "odd key", "", "~", "/", "日本", "-")] = []any{json.Number("-0"), json.Number("1.0")}
}

func drawContainers(t *rapid.T, prefix string, n int, hostile bool) []any {
	var containers []any
	for i := range n {
		c := yamlObject{"name": fmt.Sprint(prefix, i), "image": pick(t, "image", "app:1", "app", "r/app@sha256:0")}
		optional := map[string][]any{
			"env":             {[]any{yamlObject{"name": "A", "value": "x"}}, []any{yamlObject{"name": "B"}, yamlObject{"name": "A", "valueFrom": yamlObject{"fieldRef": yamlObject{"fieldPath": "spec.nodeName"}}}}},
			"volumeMounts":    {[]any{yamlObject{"name": "v0", "mountPath": "/logs"}}, []any{yamlObject{"name": "v0", "mountPath": "/a~b"}}},
			"ports":           {[]any{yamlObject{"containerPort": json.Number("80")}}, []any{yamlObject{"containerPort": json.Number("53"), "protocol": "UDP"}}},
			"resources":       {yamlObject{}, yamlObject{"limits": yamlObject{"cpu": "1"}}, yamlObject{"requests": yamlObject{"memory": "1Gi"}}},
			"livenessProbe":   {yamlObject{"httpGet": yamlObject{"port": json.Number("80")}}, yamlObject{"exec": yamlObject{"command": []any{"x"}}, "periodSeconds": json.Number("3")}},
			"args":            {[]any{"a"}},
			"securityContext": {yamlObject{"capabilities": yamlObject{"drop": []any{"ALL"}}}, yamlObject{"privileged": false}},
			"envFrom":         {[]any{yamlObject{"configMapRef": yamlObject{"name": "c"}}}},
			"future":          {json.Number("1e400")},
		}
		for _, name := range slices.Sorted(maps.Keys(optional)) {
			if some(t, name) {
				c[name] = pick(t, name, optional[name]...)
			} else if hostile && rapid.IntRange(0, 5).Draw(t, "null "+name) == 0 {
				c[name] = nil
			}
		}
		if hostile && some(t, "env twice") {
			c["env"] = []any{yamlObject{"name": "A", "value": "1"}, nil, yamlObject{"name": "A", "value": "2"}}
		}
		containers = append(containers, c)
	}
	return containers
}

// normal is the pod as decoded from JSON, sharing nothing.
func normal(pod map[string]any) map[string]any {
	d := json.NewDecoder(strings.NewReader(text(pod)))
	d.UseNumber()
	var c map[string]any
	if err := d.Decode(&c); err != nil {
		panic(err)
	}
	return c
}

// generated is a template whose fragment depends on the base pod, like one with
// $each.
type generated struct {
	name, hash, onConflict string
	overridable, keep      bool
	pieces                 []string
}

// pieces are parts of fragments, by name. %c stands for each app container, %t for
// the template, %n for the names of all app containers, %i for each init container.
var pieces = map[string]string{
	"init sidecar":   "spec: {initContainers: [{name: side-%t, $position: First, image: 'log:1', restartPolicy: Always, env: [{name: A, value: q}]}]}",
	"app sidecar":    "spec: {containers: [{name: side-%t-app, image: proxy, ports: [{containerPort: 15001}], resources: {limits: {cpu: 10m}}, livenessProbe: {httpGet: {port: 1}}}]}",
	"two inits":      "spec: {initContainers: [{name: side-%t-1, image: x, $position: Last}, {name: side-%t-2, image: x, $position: First}]}",
	"taken name":     "spec: {initContainers: [{name: i0, image: mine}]}",
	"each env":       "spec: {containers: [{name: '%c', env: [{name: A, value: mine}, {name: T_%t, value: '1', $position: First}]}]}",
	"each shared":    "spec: {containers: [{name: '%c', env: [{name: SHARED, value: '1'}], envFrom: [{secretRef: {name: s}}]}]}",
	"each mount":     "spec: {volumes: [{name: vol-%t, configMap: {name: c}}], containers: [{name: '%c', volumeMounts: [{name: vol-%t, mountPath: /logs}, {name: vol-%t, mountPath: '/%t'}]}]}",
	"each probe":     "spec: {containers: [{name: '%c', livenessProbe: {httpGet: {port: 15020, path: /app}, periodSeconds: 7}}]}",
	"each lifecycle": "spec: {containers: [{name: '%c', lifecycle: {preStop: {exec: {command: [sleep, '5']}}}}]}",
	"each resources": "spec: {containers: [{name: '%c', resources: {limits: {memory: 64Mi, cpu: 2}}}]}",
	"each security":  "spec: {containers: [{name: '%c', securityContext: {readOnlyRootFilesystem: true, capabilities: {drop: [ALL, NET_RAW]}}}]}",
	"each port":      "spec: {containers: [{name: '%c', ports: [{containerPort: 80, name: http}, {containerPort: 53}]}]}",
	"each args":      "spec: {containers: [{name: '%c', args: [b]}]}",
	"labels":         "metadata: {labels: {app: mine, 'l/%t': '1'}, annotations: {'a.b/c~d': mine, '%t/a': '{\"x\":1}'}}",
	"dns":            "spec: {dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [a, b], options: [{name: ndots, value: '2'}]}}",
	"grace":          "spec: {terminationGracePeriodSeconds: 60, enableServiceLinks: true, hostname: mine}",
	"security":       "spec: {securityContext: {fsGroup: 1, supplementalGroups: [1, 2], sysctls: [{name: a, value: '1'}], seccompProfile: {type: RuntimeDefault}}}",
	"tolerate all":   "spec: {tolerations: [{operator: Exists}]}",
	"tolerate":       "spec: {tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: a, operator: Exists}]}",
	"only tolerate":  "spec: {tolerations: [{$patch: replace}, {key: only, operator: Exists}]}",
	"no tolerations": "spec: {$unset: [tolerations]}",
	"account":        "spec: {serviceAccountName: robot, imagePullSecrets: [{name: pull}]}",
	"priority":       "spec: {priorityClassName: highest}",
	"host network":   "spec: {hostNetwork: true}",
	"affinity":       "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}",
	"selector":       "spec: {nodeSelector: {disk: hdd, zone: a}, hostAliases: [{ip: 1.1.1.1, hostnames: [b]}, {ip: 2.2.2.2, hostnames: [b]}]}",
	"shared volume":  "spec: {volumes: [{name: shared, projected: {sources: [{secret: {name: '%t'}}, {serviceAccountToken: {path: token}}]}}]}",
	"unknown":        "spec: {brandNew: {big: 12345678901234567890}, newer: [1, 2]}",
	"lists names":    "spec: {initContainers: [{name: side-%t-lists, image: x, env: [{name: LISTED, value: '%n'}, {name: FIXED, value: x}]}]}",
	"drop env":       "spec: {containers: [{name: '%c', env: [{name: A, $patch: delete}]}]}",
	"drop kept env":  "spec: {containers: [{name: '%c', env: [{name: A, $patch: delete, $onConflict: KeepPod}]}]}",
	"other handler":  "spec: {containers: [{name: '%c', livenessProbe: {$unset: [exec, tcpSocket], httpGet: {port: 15020}}}]}",
	"all security":   "spec: {containers: [{name: '%c', securityContext: {$patch: replace, runAsNonRoot: true}}]}",
	"all env":        "spec: {containers: [{name: '%c', env: [{$patch: replace}, {name: ONLY, value: '%t'}]}]}",
	"drop volume":    "spec: {volumes: [{name: v0, $patch: delete}]}",
	"drop runtime":   "spec: {$unset: [runtimeClassName], nodeSelector: {$patch: delete}}",
	"before own":     "spec: {initContainers: [{name: side-%t-b, image: x, $position: {before: i0}}]}",
	"after other":    "spec: {initContainers: [{name: side-%t-a, image: x, $position: {after: side-t1-b}}]}",
	"before other":   "spec: {initContainers: [{name: side-%t-c, image: x, $position: {before: side-t0-a}}]}",
	"pod limits":     "spec: {resources: {limits: {cpu: 4}}}",
	"big init":       "spec: {initContainers: [{name: side-%t-init, image: x, resources: {requests: {cpu: 5, memory: 1Gi}}}]}",
	"requests":       "spec: {containers: [{name: '%c', resources: {requests: {cpu: 20m}}}]}",
	"anywhere":       "spec: {containers: [{name: '%i', env: [{name: ANYWHERE, value: '%t'}], args: [b]}]}",
	"nothing":        "spec: {initContainers: [], containers: []}",
	"append own":     "spec: {containers: [{name: '%c', env: [{name: A, $append: ' ', value: 'by-%t'}]}]}",
	"append same":    "spec: {containers: [{name: '%c', env: [{name: A, $append: ' ', value: same}]}]}",
	"append new":     "spec: {containers: [{name: '%c', env: [{name: NEW, $append: '::', value: '%t', $position: First}, {name: NEWER, value: $(NEW)}]}]}",
	"append twice":   "spec: {containers: [{name: '%c', env: [{name: TWICE, $append: ' ', value: '%t'}, {name: TWICE, $append: ',', value: again}, {name: A, $append: ' ', value: ''}]}]}",
	"set new":        "spec: {containers: [{name: '%c', env: [{name: NEW, value: plain}]}]}",
	"append aside":   "spec: {initContainers: [{name: side-%t-j, image: x, env: [{name: J, $append: ' ', value: a}, {name: J, $append: ' ', value: b}]}]}",
	"append to t0":   "spec: {initContainers: [{name: side-t0-j, image: x, env: [{name: J, $append: ' ', value: a}, {name: J, $append: ' ', value: b}]}]}",
	"prepend own":    "spec: {containers: [{name: '%c', env: [{name: A, $prepend: ' ', value: 'by-%t'}]}]}",
	"prepend same":   "spec: {containers: [{name: '%c', env: [{name: A, $prepend: ' ', value: same}]}]}",
	"prepend new":    "spec: {containers: [{name: '%c', env: [{name: NEW, $prepend: '::', value: 'in-%t'}, {name: TWICE, $prepend: ',', value: '%t'}]}]}",
	"prepend notes":  "metadata: {annotations: {y: {$prepend: ',', value: '%t'}}}",
	"append notes":   "metadata: {annotations: {x: {$append: ',', value: '%t'}, new/a: {$append: ',', value: '80'}, new/b: {$append: ',', value: ''}}}",
	"set note":       "metadata: {annotations: {new/a: '90'}}",
	"scalars":        "metadata: {labels: {app: {$onConflict: Overwrite, value: all}, x: {$onConflict: KeepPod, value: '%t'}}}\nspec: {hostname: {$onConflict: KeepPod, value: '%t'}, nodeSelector: {disk: {$onConflict: Overwrite, value: any}}}",
}

func drawTemplates(t *rapid.T) []generated {
	var all []generated
	for i := range rapid.IntRange(1, 3).Draw(t, "templates") {
		g := generated{name: fmt.Sprint("t", i), hash: "v1", onConflict: pick(t, "onConflict", "", KeepPod, KeepPod, Overwrite, Overwrite), overridable: some(t, "overridable"), keep: rapid.IntRange(0, 4).Draw(t, "keep") == 0}
		g.pieces = rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(pieces))), 1, 6, rapid.ID[string]).Draw(t, "pieces")
		if slices.Contains(g.pieces, "no tolerations") {
			g.pieces = slices.DeleteFunc(g.pieces, func(p string) bool { return slices.Contains([]string{"tolerate", "tolerate all", "only tolerate"}, p) })
		}
		if slices.Contains(g.pieces, "drop env") || slices.Contains(g.pieces, "drop kept env") {
			g.pieces = slices.DeleteFunc(g.pieces, func(p string) bool {
				return slices.Contains([]string{"append own", "append same", "append twice", "prepend own", "prepend same"}, p)
			})
		}
		if slices.Contains(g.pieces, "drop runtime") {
			g.pieces = slices.DeleteFunc(g.pieces, func(p string) bool { return p == "scalars" })
		}
		all = append(all, g)
	}
	return all
}

// render gives the fragment for a base pod.
func (g generated) render(t testing.TB, base map[string]any) Fragment {
	object := yamlObject{}
	spec, _ := base["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	inits, _ := spec["initContainers"].([]any)
	for _, piece := range g.pieces {
		p := strings.ReplaceAll(pieces[piece], "%t", g.name)
		p = strings.ReplaceAll(p, "%n", sortedNames(containers))
		each, mark := containers, "%c"
		if strings.Contains(p, "%i") {
			each, mark = inits, "%i"
		} else if !strings.Contains(p, mark) {
			combine(object, parse(t, p))
			continue
		}
		for _, c := range each {
			if name, ok := objectOf(c)["name"].(string); ok {
				combine(object, parse(t, strings.ReplaceAll(p, mark, name)))
			}
		}
	}
	return Fragment{Template: g.name, Hash: g.hash, OnConflict: g.onConflict, Overridable: g.overridable, KeepPodResources: g.keep, Object: object}
}

// sortedNames returns the names of the containers, whatever their order.
func sortedNames(containers []any) string {
	var all []string
	for _, c := range containers {
		object, _ := c.(map[string]any)
		name, _ := object["name"].(string)
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// combine puts fragments together: objects field by field, lists of named
// items item by item, other lists one after the other.
func combine(into, from map[string]any) {
	for name, v := range from {
		switch have := into[name].(type) {
		case map[string]any:
			if more, ok := v.(map[string]any); ok {
				combine(have, more)
			} else {
				into[name] = v
			}
		case []any:
			into[name] = combineLists(have, v.([]any))
		default:
			into[name] = v
		}
	}
}

func combineLists(have, more []any) []any {
	for _, item := range more {
		object, _ := item.(map[string]any)
		i := slices.IndexFunc(have, func(h any) bool {
			other, _ := h.(map[string]any)
			if directive.Joins(object) && directive.Joins(other) {
				return false // both stay
			}
			return object != nil && object["name"] != nil && other["name"] == object["name"] && object["mountPath"] == nil && object["containerPort"] == nil
		})
		if i >= 0 {
			combine(have[i].(map[string]any), object)
		} else {
			have = append(have, item)
		}
	}
	return have
}

// apiServer does to a pod what the API server does before a webhook sees it, and
// again after a webhook changed it. It changes the pod.
func apiServer(pod map[string]any) {
	spec := pod["spec"].(map[string]any)
	absent := func(o map[string]any, name string, v any) {
		if o[name] == nil {
			o[name] = v
		}
	}
	for name, v := range (yamlObject{"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "enableServiceLinks": true,
		"securityContext": yamlObject{}, "terminationGracePeriodSeconds": json.Number("30"), "serviceAccountName": "default", "preemptionPolicy": "PreemptLowerPriority"}) {
		absent(spec, name, v)
	}
	spec["serviceAccount"] = spec["serviceAccountName"]
	absent(spec, "priority", map[any]any{nil: json.Number("0"), "high": json.Number("10"), "highest": json.Number("100")}[spec["priorityClassName"]])
	tolerate(spec)
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			defaultContainer(c.(map[string]any), spec["hostNetwork"] == true)
		}
	}
	mountToken(spec)
	if resources := objectOf(spec["resources"]); len(objectOf(resources["limits"])) > 0 {
		absent(resources, "requests", yamlObject{})
		requests := resources["requests"].(map[string]any)
		for _, key := range []string{"cpu", "memory"} {
			if sum, some := podschema.ContainerRequests(spec)[key]; some {
				absent(requests, key, sum.String())
			}
		}
		for key, limit := range resources["limits"].(map[string]any) {
			absent(requests, key, limit)
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		for source, fields := range v.(map[string]any) {
			if f, ok := fields.(map[string]any); ok && (source == "configMap" || source == "projected") {
				absent(f, "defaultMode", json.Number("420"))
			} else if ok && source == "hostPath" {
				absent(f, "type", "")
			}
		}
	}
}

func defaultContainer(c map[string]any, hostNetwork bool) {
	absent := func(o map[string]any, name string, v any) {
		if o[name] == nil {
			o[name] = v
		}
	}
	absent(c, "terminationMessagePath", "/dev/termination-log")
	absent(c, "terminationMessagePolicy", "File")
	absent(c, "imagePullPolicy", pullPolicy(c["image"]))
	absent(c, "resources", yamlObject{})
	resources := c["resources"].(map[string]any)
	if limits, ok := resources["limits"].(map[string]any); ok {
		absent(resources, "requests", yamlObject{})
		for name, q := range limits {
			absent(resources["requests"].(map[string]any), name, q)
		}
	}
	ports, _ := c["ports"].([]any)
	for _, p := range ports {
		port := p.(map[string]any)
		absent(port, "protocol", "TCP")
		if hostNetwork {
			absent(port, "hostPort", port["containerPort"])
		}
	}
	env, _ := c["env"].([]any)
	for _, e := range env {
		if from, ok := e.(map[string]any)["valueFrom"].(map[string]any); ok {
			absent(from["fieldRef"].(map[string]any), "apiVersion", "v1")
		}
	}
	if probe, ok := c["livenessProbe"].(map[string]any); ok {
		for name, v := range (yamlObject{"timeoutSeconds": json.Number("1"), "periodSeconds": json.Number("10"), "successThreshold": json.Number("1"), "failureThreshold": json.Number("3")}) {
			absent(probe, name, v)
		}
		if get, ok := probe["httpGet"].(map[string]any); ok {
			absent(get, "path", "/")
			absent(get, "scheme", "HTTP")
		}
	}
}

// tolerate does what the plugin DefaultTolerationSeconds does.
func tolerate(spec map[string]any) {
	tolerations, _ := spec["tolerations"].([]any)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		d := yamlObject{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": json.Number("300")}
		if !slices.ContainsFunc(tolerations, func(t any) bool { return covers(t.(map[string]any), d) }) {
			tolerations = append(tolerations, d)
		}
	}
	spec["tolerations"] = tolerations
}

// mountToken does what the ServiceAccount plugin does for an account that automounts its
// token.
func mountToken(spec map[string]any) {
	volumes, _ := spec["volumes"].([]any)
	i := slices.IndexFunc(volumes, func(v any) bool { return strings.HasPrefix(v.(map[string]any)["name"].(string), "kube-api-access-") })
	name := "kube-api-access-abcde"
	if i >= 0 {
		name = volumes[i].(map[string]any)["name"].(string)
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, v := range containers {
			c := v.(map[string]any)
			mounts, _ := c["volumeMounts"].([]any)
			if !slices.ContainsFunc(mounts, func(m any) bool { return m.(map[string]any)["mountPath"] == tokenPath }) {
				c["volumeMounts"] = append(mounts, yamlObject{"name": name, "mountPath": tokenPath, "readOnly": true})
			}
		}
	}
	if i < 0 {
		spec["volumes"] = append(volumes, yamlObject{"name": name, "projected": yamlObject{"sources": []any{
			yamlObject{"serviceAccountToken": yamlObject{"expirationSeconds": json.Number("3607"), "path": "token"}},
			yamlObject{"configMap": yamlObject{"name": "kube-root-ca.crt", "items": []any{yamlObject{"key": "ca.crt", "path": "ca.crt"}}}},
			yamlObject{"downwardAPI": yamlObject{"items": []any{yamlObject{"path": "namespace", "fieldRef": yamlObject{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}}},
		}}})
	}
}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// stranger is another webhook. It changes the pod's own parts in the same way
// whether Pillion was called before or not.
func stranger(pod map[string]any, add, sort, rewrite bool) {
	spec := pod["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	if rewrite {
		inits, _ := spec["initContainers"].([]any)
		for _, c := range slices.Concat(containers, inits) {
			if c := c.(map[string]any); strings.HasPrefix(fmt.Sprint(c["name"]), "side-") {
				c["image"] = "mirror.example.com/" + fmt.Sprint(c["image"])
			}
		}
	}
	if add {
		spec["containers"] = append(containers, yamlObject{"name": "later", "image": "later:1", "env": []any{yamlObject{"name": "OWN", "value": "1"}}})
	}
	if !sort {
		return
	}
	shuffle(spec, "volumes")
	for _, list := range []string{"containers", "initContainers"} {
		shuffle(spec, list)
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			shuffle(c.(map[string]any), "env")
			shuffle(c.(map[string]any), "volumeMounts")
		}
	}
}

// shuffle orders a list by a hash of its items' names: an order that looks
// random, and is the same whatever else is in the list.
func shuffle(o map[string]any, list string) {
	items, ok := o[list].([]any)
	if !ok {
		return
	}
	rank := func(v any) uint32 {
		object, _ := v.(map[string]any)
		h := fnv.New32a()
		fmt.Fprint(h, object["name"], object["mountPath"])
		return h.Sum32()
	}
	slices.SortStableFunc(items, func(a, b any) int { return cmp.Compare(rank(a), rank(b)) })
}
