package merge_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// row is a row of the contract's table: what a template does where the pod has something.
type row struct {
	name, pod, fragment string // with marks
	path                []string
	stays               string // what is there where the pod's value stays
	wins                string // what is there where the template's does, "" where it never does
	kind                kind
}

// kind says what decides.
type kind int

const (
	always    kind = iota // the template's value is there, whatever is said of conflicts
	conflict              // onConflict decides
	podsOwn               // the pod's stays, unless a $onConflict says otherwise
	neverTwin             // a conflict that Overwrite does not settle
)

func app(fields ...string) []string {
	return append([]string{"spec", "containers", "name=web"}, fields...)
}

var rows = []row{
	{"an item not in the pod is added", web("", ""), "spec: {initContainers: [{name: log, image: 'log:1'}]}", []string{"spec", "initContainers"}, "", `[{"image":"log:1","name":"log"}]`, always},
	{"an equal value is left alone", web(", env: [{name: A, value: x}]", ""), extend("env: [{name: A, value: x}]"), app("env"), "", `[{"name":"A","value":"x"}]`, always},
	{"a value equal modulo defaults is left alone", web("", ", volumes: [{name: c, configMap: {name: x, defaultMode: 420}}]"), "spec: {volumes: [{name: c, configMap: {name: x}}]}", []string{"spec", "volumes"}, "", `[{"configMap":{"defaultMode":420,"name":"x"},"name":"c"}]`, always},
	{"an equal quantity is left alone", web(", resources: {limits: {cpu: 1000m, memory: '67108864'}}", ""), extend("resources: {limits: {cpu: 1, memory: 64Mi}}"), app("resources", "limits"), "", `{"cpu":"1000m","memory":"67108864"}`, always},
	{"an author's container of the sidecar's name conflicts", web("", ", initContainers: [{name: log, image: 'mine:1'}]"), "spec: {initContainers: [{name: log, image: 'log:1'%}]}", []string{"spec", "initContainers"}, `[{"image":"mine:1","name":"log"}]`, `[{"image":"log:1","name":"log"}]`, conflict},
	{"the sidecar's name among another kind of container conflicts", web("", ""), "spec: {initContainers: [{name: web, image: 'log:1'%}]}", []string{"spec", "initContainers"}, "null", "", neverTwin},
	{"a variable of an app container stays", web(", env: [{name: A, value: x}]", ""), extend("env: [{name: A, value: z%}]"), app("env"), `[{"name":"A","value":"x"}]`, `[{"name":"A","value":"z"}]`, podsOwn},
	{"a value and a source are never mixed", web(", env: [{name: A, value: x}]", ""), extend("env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}%}]"), app("env"), `[{"name":"A","value":"x"}]`, `[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}]`, podsOwn},
	{"a mount of an app container stays", web(", volumeMounts: [{name: a, mountPath: /x}]", ""), extend("volumeMounts: [{name: b, mountPath: /x%}]"), app("volumeMounts"), `[{"mountPath":"/x","name":"a"}]`, `[{"mountPath":"/x","name":"b"}]`, podsOwn},
	{"a label stays", "metadata: {labels: {app: web}}\nspec: {}", "metadata: {labels: {app: <other>}}", []string{"metadata", "labels", "app"}, `"web"`, `"other"`, podsOwn},
	{"an annotation stays", "metadata: {annotations: {a/b: x}}\nspec: {}", "metadata: {annotations: {a/b: <z>}}", []string{"metadata", "annotations", "a/b"}, `"x"`, `"z"`, podsOwn},
	{"a volume of another source conflicts", web("", ", volumes: [{name: v, emptyDir: {}}]"), "spec: {volumes: [{name: v, hostPath: {path: /x}%}]}", []string{"spec", "volumes"}, `[{"emptyDir":{},"name":"v"}]`, `[{"hostPath":{"path":"/x"},"name":"v"}]`, conflict},
	{"an absent scalar becomes the template's", web("", ""), "spec: {hostNetwork: <true>}", []string{"spec", "hostNetwork"}, "", `true`, always},
	{"a null scalar becomes the template's", web("", ", hostname: null"), "spec: {hostname: <x>}", []string{"spec", "hostname"}, "", `"x"`, always},
	{"a scalar at the API's default becomes the template's", web("", ", terminationGracePeriodSeconds: 30"), "spec: {terminationGracePeriodSeconds: <60>}", []string{"spec", "terminationGracePeriodSeconds"}, "", `60`, always},
	{"a default that depends on the image becomes the template's", web(", imagePullPolicy: IfNotPresent", ""), extend("imagePullPolicy: <Always>"), app("imagePullPolicy"), "", `"Always"`, always},
	{"no token is mounted where the pod mounts another volume", web(", volumeMounts: [{name: v, readOnly: true, "+atToken+"}]", ", volumes: [{name: v, emptyDir: {}}, "+tokenVolume("kube-api-access-own")+"]"), "spec: {initContainers: [{name: log, image: 'log:1'}]}", []string{"spec", "initContainers"}, "", `[{"image":"log:1","name":"log"}]`, always},
	{"the service account that admission set becomes the template's", web("", ", serviceAccountName: default, serviceAccount: default"), "spec: {serviceAccountName: robot}", []string{"spec", "serviceAccount"}, "", `"robot"`, always},
	{"computed priority is dropped for the template's class", web("", ", priority: 0, preemptionPolicy: PreemptLowerPriority"), "spec: {priorityClassName: high}", []string{"spec", "priority"}, "", `null`, always},
	{"a computed priority becomes the template's", web("", ", priority: 0, preemptionPolicy: PreemptLowerPriority"), "spec: {priority: 7, preemptionPolicy: Never}", []string{"spec", "priority"}, "", `7`, always},
	{"a default toleration gives way to the template's", web("", ", tolerations: [{key: x, operator: Exists}, "+defaultToleration("not-ready")+", "+defaultToleration("unreachable")+"]"), "spec: {tolerations: [{operator: Exists}]}", []string{"spec", "tolerations"}, "", `[{"key":"x","operator":"Exists"},{"operator":"Exists"}]`, always},
	{"what LimitRange says it set becomes the template's", "metadata: {annotations: {kubernetes.io/limit-ranger: 'LimitRanger plugin set: cpu, memory request for container web; memory limit for container web'}}\n" +
		"spec: {containers: [{name: web, image: x, resources: {limits: {memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}}]}", extend("resources: {limits: {memory: 2Gi}}"), app("resources", "limits", "memory"), "", `"2Gi"`, always},
	{"a limit that nobody says was defaulted conflicts", web(", resources: {limits: {memory: 1Gi}}", ""), extend("resources: {limits: {memory: <2Gi>}}"), app("resources", "limits", "memory"), `"1Gi"`, `"2Gi"`, conflict},
	{"a request that says what its limit says becomes the template's", web(", resources: {limits: {cpu: 1}, requests: {cpu: 1000m}}", ""), extend("resources: {requests: {cpu: 10m}}"), app("resources", "requests"), "", `{"cpu":"10m"}`, always},
	{"a request that says something else conflicts", web(", resources: {limits: {cpu: 2}, requests: {cpu: 1}}", ""), extend("resources: {requests: {cpu: <2>}}"), app("resources", "requests"), `{"cpu":1}`, `{"cpu":2}`, conflict},
	{"a scalar that the pod set conflicts", web("", ", dnsPolicy: None"), "spec: {dnsPolicy: <Default>}", []string{"spec", "dnsPolicy"}, `"None"`, `"Default"`, conflict},
	{"an atomic list is one scalar", web(", args: [a]", ""), extend("args: [b]"), app("args"), `["a"]`, `["b"]`, conflict},
	{"a node selector is a map of scalars", web("", ", nodeSelector: {a: x, b: x}"), "spec: {nodeSelector: {a: <z>}}", []string{"spec", "nodeSelector"}, `{"a":"x","b":"x"}`, `{"a":"z","b":"x"}`, conflict},
	{"probe handlers are never mixed", web(", livenessProbe: {httpGet: {port: 80}, periodSeconds: 5}", ""), extend("livenessProbe: {exec: {command: [x]}%}"), app("livenessProbe"), `{"httpGet":{"port":80},"periodSeconds":5}`, `{"exec":{"command":["x"]},"periodSeconds":5}`, conflict},
	{"a field of a probe is a scalar", web(", livenessProbe: {httpGet: {port: 80}}", ""), extend("livenessProbe: {httpGet: {port: <'80'>}}"), app("livenessProbe", "httpGet", "port"), `80`, `"80"`, conflict},
	{"a sysctl of one name has one value", web("", ", securityContext: {sysctls: [{name: a, value: '1'}]}"), "spec: {securityContext: {sysctls: [{name: a, value: '2'%}]}}", []string{"spec", "securityContext", "sysctls"}, `[{"name":"a","value":"1"}]`, `[{"name":"a","value":"2"}]`, conflict},
	{"absent items of a set are appended", web(", securityContext: {capabilities: {drop: [NET_RAW]}}", ""), extend("securityContext: {capabilities: {drop: [ALL, NET_RAW]}}"), app("securityContext", "capabilities", "drop"), "", `["NET_RAW","ALL"]`, always},
	{"ports of one number and two protocols are two", web(", ports: [{containerPort: 53}]", ""), extend("ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]"), app("ports"), "", `[{"containerPort":53},{"containerPort":53,"protocol":"UDP"}]`, always},
	{"a volume of other projected sources conflicts", web("", ", volumes: [{name: v, projected: {sources: [{configMap: {name: a}}]}}]"), "spec: {volumes: [{name: v, projected: {sources: [{secret: {name: b}}]}%}]}", []string{"spec", "volumes", "name=v", "projected", "sources"}, `[{"configMap":{"name":"a"}}]`, `[{"secret":{"name":"b"}}]`, conflict},
	{"spread constraints are gathered", web("", ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]"), "spec: {topologySpreadConstraints: [{maxSkew: 2, topologyKey: b, whenUnsatisfiable: ScheduleAnyway}]}", []string{"spec", "topologySpreadConstraints"}, "", `[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway"},{"maxSkew":2,"topologyKey":"b","whenUnsatisfiable":"ScheduleAnyway"}]`, always},
	{"a field that this build does not know is one value", web("", ""), "spec: {brandNew: {a: [1]}}", []string{"spec", "brandNew"}, "", `{"a":[1]}`, always},
	{"an unknown field that differs conflicts", web("", ", brandNew: {a: 1}"), "spec: {brandNew: {b: 1}}", []string{"spec", "brandNew"}, `{"a":1}`, `{"b":1}`, conflict},
}

func defaultToleration(what string) string {
	return "{key: node.kubernetes.io/" + what + ", operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
}

const keepWarning, overwriteWarning = "the pod's value is used, not the template's", "the template's value replaces the pod's"

// wants returns what a row gives under a policy of the template, and under one at the node.
func (r row) wants(policy string, outright bool) (value, warning string) {
	if r.kind == podsOwn && !outright {
		policy = directive.KeepPod
	}
	warns := !outright
	switch {
	case r.kind == always:
		return r.wins, ""
	case policy == directive.KeepPod:
		value, warning = r.stays, keepWarning
		if strings.Contains(r.name, "mount") {
			warning = "a sidecar will not see its files"
		}
	case policy == directive.Overwrite && r.wins != "":
		value, warning = r.wins, overwriteWarning
	default:
		return "", "" // a conflict
	}
	if !warns {
		warning = ""
	}
	return value, warning
}

func TestEveryRowOfTheMergeTable(t *testing.T) {
	for _, r := range rows {
		for _, policy := range []string{"", directive.Deny, directive.KeepPod, directive.Overwrite} {
			for _, outright := range []bool{false, true} {
				if outright && (policy == "" || !marks.MatchString(r.fragment)) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, at the node %v", r.name, policy, outright), func(t *testing.T) {
					one := named(withDirective(r.fragment, ""))[0]
					one.OnConflict = policy
					if outright {
						one.OnConflict, one.fragment = directive.Deny, withDirective(r.fragment, policy)
					}
					checkRow(t, r, one, policy, outright)
				})
			}
		}
	}
}

// marks are the places of a fragment for a $onConflict: % in an object, and <V> for a scalar V.
var marks = regexp.MustCompile(`%|<([^>]*)>`)

// withDirective puts a $onConflict at the marks of a fragment, none for "".
func withDirective(text, policy string) string {
	return marks.ReplaceAllStringFunc(text, func(mark string) string {
		value := strings.Trim(mark, "<>%")
		switch {
		case policy == "":
			return value
		case value == "":
			return ", $onConflict: " + policy
		}
		return "{$onConflict: " + policy + ", value: " + value + "}"
	})
}

func checkRow(t *testing.T, r row, one template, policy string, outright bool) {
	value, warning := r.wants(policy, outright)
	o, err := inject(t, fragmenttest.Decode(t, r.pod), []template{one})
	if value == "" {
		var c *merge.Conflict
		if !errors.As(err, &c) || c.Template != "a" || c.Other != "" || c.Path == nil || c.Stands == nil || c.Wants == nil {
			t.Fatalf("%v; want a whole conflict", err)
		}
		return
	}
	errtest.ExpectNone(t, err)
	if got := at(o.pod, r.path...); got != value {
		t.Errorf("got %s, want %s", got, value)
	}
	if got := strings.Join(o.warnings, "\n"); (warning == "") != (got == "") || !strings.Contains(got, warning) {
		t.Errorf("warnings %q, want %q", got, warning)
	}
	if isKept := policy == directive.KeepPod && r.kind != always || r.kind == podsOwn && !outright; isKept != (len(o.kept) > 0) {
		t.Errorf("kept %v, want some: %v", o.kept, isKept)
	}
}

// A required template leaves no value of the pod alone, whatever is said of conflicts.
func TestARequiredTemplateConflictsWithEveryOtherValue(t *testing.T) {
	for _, r := range rows {
		for _, policy := range []string{directive.KeepPod, directive.Overwrite} {
			one := named(withDirective(r.fragment, policy))[0]
			one.Required, one.OnConflict = true, policy
			pod := fragmenttest.Decode(t, r.pod)
			result, err := merge.Merge(t.Context(), merge.State{Base: pod, Pod: pod}, fragmenttest.Parse(t, one.fragment), one.Template)
			if err != nil || (len(result.Conflicts) > 0) != (r.kind != always) || len(result.PodValues)+len(result.Warnings) > 0 {
				t.Errorf("%s, %s: %v, conflicts %v, kept %v", r.name, policy, err, result.Conflicts, result.PodValues)
			}
			if r.kind == always && at(result.Pod, r.path...) != r.wins {
				t.Errorf("%s: %s", r.name, at(result.Pod, r.path...))
			}
		}
	}
}

func TestWritersSayWhoWroteAPlaceOrTheWholeAroundIt(t *testing.T) {
	o, err := mergeAll(t, fragmenttest.Decode(t, web(", env: [{name: OWN, value: x}]", "")), named("spec: {initContainers: [{name: s, image: s, env: [{name: A, value: x}]}]}", "spec: {initContainers: [{name: s, env: [{name: B, value: x}]}], containers: [{name: web, env: [{name: OWN, value: x}, {name: NEW, value: x}]}]}"))
	errtest.ExpectNone(t, err)
	for path, want := range map[string]string{
		"spec.initContainers[name=s]": "a", "spec.initContainers[name=s].env[name=A].value": "a", "spec.initContainers[name=s].env[name=B].value": "b",
		"spec.containers[name=web].env[name=NEW]": "b", "spec.containers[name=web].env[name=OWN]": "", "spec.containers[name=web]": "", "spec": "",
	} {
		p, err := podschema.ParsePath(path)
		errtest.ExpectNone(t, err)
		if got := o.writers.By(p.Segments()); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
