package merge_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

const large = "metadata: {labels: {l: x}}\nspec: {dnsPolicy: ClusterFirst, hostname: own, nodeSelector: {disk: ssd}, containers: [{name: web, image: x, ports: [{containerPort: 80}], env: [{name: A, value: own}], securityContext: {runAsUser: 1}, livenessProbe: {exec: {command: [own]}}}, {name: s2, image: x}]}"

// Two templates want different values in one place. The later one gives a conflict that names both, whatever any
// policy says.
func TestTwoTemplatesThatDisagreeAreAConflictThatNamesBoth(t *testing.T) {
	for name, pair := range map[string][2]string{
		"a new variable":                 {extend("env: [{name: NEW, value: x}]"), extend("env: [{name: NEW, value: z}]")},
		"a new label":                    {"metadata: {labels: {a: x}}", "metadata: {labels: {a: z}}"},
		"a scalar":                       {"spec: {subdomain: x}", "spec: {subdomain: z}"},
		"a default and another":          {"spec: {dnsPolicy: ClusterFirst}", "spec: {dnsPolicy: None}"},
		"another and a default":          {"spec: {dnsPolicy: None}", "spec: {dnsPolicy: ClusterFirst}"},
		"a default that nothing has":     {"spec: {terminationGracePeriodSeconds: 30}", "spec: {terminationGracePeriodSeconds: 5}"},
		"a sidecar":                      {"spec: {containers: [{name: s, image: x}]}", "spec: {containers: [{name: s, image: z}]}"},
		"kinds of containers":            {"spec: {containers: [{name: s, image: x}]}", "spec: {initContainers: [{name: s, image: x}]}"},
		"a field of the other's sidecar": {"spec: {containers: [{name: s, image: x, env: [{name: A, value: x}]}]}", "spec: {containers: [{name: s, env: [{name: A, value: z}]}]}"},
		"a volume":                       {"spec: {volumes: [{name: v, emptyDir: {}}]}", "spec: {volumes: [{name: v, emptyDir: {medium: Memory}}]}"},
		"a volume's sources":             {"spec: {volumes: [{name: v, projected: {sources: [{configMap: {name: a}}]}}]}", "spec: {volumes: [{name: v, projected: {sources: [{configMap: {name: b}}]}}]}"},
		"a list that goes and an item":   {extend("$unset: [ports]"), extend("ports: [{containerPort: 81}]")},
		"an item and a list that goes":   {extend("ports: [{containerPort: 81}]"), extend("$unset: [ports]")},
		"an item that goes":              {extend("env: [{name: A, $patch: delete}]"), extend("env: [{name: A, value: mine}]")},
		"a label that goes":              {"metadata: {labels: {$unset: [l]}}", "metadata: {labels: {l: mine}}"},
		"an object that goes":            {extend("securityContext: {$patch: delete}"), extend("securityContext: {runAsUser: 2}")},
		"a list replaced":                {extend("env: [{name: B, value: x}]"), extend("env: [{$patch: replace}, {name: C, value: x}]")},
		"a sidecar replaced":             {"spec: {initContainers: [{name: s, image: a}]}", "spec: {initContainers: [{name: s, image: a, $patch: replace, args: [x]}]}"},
		"a sidecar deleted":              {"spec: {initContainers: [{name: s, image: a}]}", "spec: {initContainers: [{name: s, $patch: delete}]}"},
		"a container deleted":            {"spec: {containers: [{name: s2, $patch: delete}]}", "spec: {containers: [{name: s2, env: [{name: A}]}]}"},
		"a container extended":           {"spec: {containers: [{name: s2, env: [{name: NEW}]}]}", "spec: {containers: [{name: s2, image: b}]}"},
		"each overwrites a variable":     {extend("env: [{name: A, value: a, $onConflict: Overwrite}]"), extend("env: [{name: A, value: b, $onConflict: Overwrite}]")},
		"each wants another handler":     {extend("livenessProbe: {$onConflict: Overwrite, grpc: {port: 1}}"), extend("livenessProbe: {$onConflict: Overwrite, exec: {command: [b]}}")},
		"a map that goes":                {"spec: {nodeSelector: {$patch: delete}}", "spec: {nodeSelector: {$onConflict: Overwrite, disk: hdd}}"},
		"a text and a deletion":          {"metadata: {annotations: {x: {$append: ',', value: a}}}", "metadata: {annotations: {$unset: [x]}}"},
		"a deletion and a text":          {extend("env: [{name: A, $patch: delete}]"), extend("env: [{name: A, $append: ',', value: a}]")},
		"a plain value on a text":        {extend("env: [{name: NEW, $append: ',', value: a}]"), extend("env: [{name: NEW, value: b}]")},
	} {
		for _, policy := range []string{directive.Deny, directive.KeepPod, directive.Overwrite} {
			both := named(pair[0], pair[1])
			both[1].OnConflict = policy
			var c *merge.Conflict
			_, err := mergeAll(t, fragmenttest.Decode(t, large), both)
			if name == "a container extended" && policy != directive.Overwrite {
				continue // the conflict is one with the author, whose container it is
			}
			if !errors.As(err, &c) || c.Template != "b" || c.Other != "a" {
				t.Errorf("%s, %s: %v; want a conflict of b with a", name, policy, err)
			}
		}
	}
}

// A conflict in a sidecar names the template that wrote the value, which is not always the sidecar's.
func TestAConflictInASidecarNamesTheTemplateOfTheValue(t *testing.T) {
	const sidecar = "spec: {initContainers: [{name: s, image: s, env: [{name: OLD, value: x}]}]}"
	in := func(part string) string { return "spec: {initContainers: [{name: s, " + part + "}]}" }
	for name, pair := range map[string][2]string{
		"a variable":              {in("env: [{name: NEW, value: x}]"), in("env: [{name: NEW, value: z}]")},
		"a field":                 {in("stdin: true"), in("stdin: false")},
		"a field that goes":       {in("workingDir: /x"), in("$unset: [workingDir]")},
		"a variable that goes":    {in("env: [{name: NEW, value: x}]"), in("env: [{name: NEW, $patch: delete}]")},
		"an object and its field": {in("securityContext: {runAsUser: 1}"), in("securityContext: {runAsUser: 2}")},
	} {
		var c *merge.Conflict
		if _, err := mergeAll(t, fragmenttest.Decode(t, large), named(sidecar, pair[0], pair[1])); !errors.As(err, &c) || c.Template != "c" || c.Other != "b" {
			t.Errorf("%s: %v; want a conflict of c with b", name, err)
		}
	}
}

// The order decides: who keeps the pod's value says nothing against who overwrites it later, and the other way round
// two templates disagree.
func TestKeepPodPassesBeforeOverwriteAndConflictsBehindIt(t *testing.T) {
	for name, c := range map[string]struct {
		keeps, overwrites string
		byRule            bool // the later template keeps by rule, and not by a policy
	}{
		"a scalar":         {keeps: "spec: {hostname: k}", overwrites: "spec: {hostname: o}"},
		"a probe":          {keeps: extend("livenessProbe: {httpGet: {port: 1}}"), overwrites: extend("livenessProbe: {grpc: {port: 2}}")},
		"a sidecar":        {keeps: "spec: {containers: [{name: s2, image: k}]}", overwrites: "spec: {containers: [{name: s2, image: o}]}"},
		"a variable":       {keeps: extend("env: [{name: A, value: k}]"), overwrites: extend("env: [{name: A, value: o, $onConflict: Overwrite}]"), byRule: true},
		"the same values":  {keeps: "spec: {hostname: o}", overwrites: "spec: {hostname: o}"},
		"a removal, later": {keeps: "spec: {hostname: k}", overwrites: "spec: {$unset: [hostname]}"},
	} {
		both := named(c.keeps, c.overwrites)
		both[0].OnConflict, both[1].OnConflict = directive.KeepPod, directive.Overwrite
		if _, err := inject(t, fragmenttest.Decode(t, large), both); err != nil {
			t.Errorf("%s: KeepPod, then Overwrite: %v", name, err)
		}
		slices.Reverse(both)
		var conflict *merge.Conflict
		if _, err := mergeAll(t, fragmenttest.Decode(t, large), both); c.keeps != c.overwrites && (!errors.As(err, &conflict) || conflict.Other != "b") {
			t.Errorf("%s: Overwrite, then KeepPod: %v", name, err)
		}
	}
}

func TestATextIsJoinedOnceInTheOrderOfTheTemplates(t *testing.T) {
	text := func(name, directive, text string) string {
		return extend("env: [{name: " + name + ", " + directive + ", value: '" + text + "'}]")
	}
	for name, c := range map[string]struct {
		env  string
		all  []string
		want string
	}{
		"no environment":         {"", []string{text("J", "$append: ' '", "-a"), text("J", "$append: ' '", "-b")}, "-a -b"},
		"a value":                {"{name: J, value: -x}", []string{text("J", "$append: ' '", "-a"), text("J", "$append: ' '", "-b")}, "-x -a -b"},
		"an empty value":         {"{name: J, value: ''}", []string{text("J", "$append: ' '", "-a")}, "-a"},
		"no value":               {"{name: J}", []string{text("J", "$append: ' '", "-a")}, "-a"},
		"the text is there":      {"{name: J, value: -x -a -z}", []string{text("J", "$append: ' '", "-a"), text("J", "$append: ' '", "-b")}, "-x -a -z -b"},
		"a longer one is":        {"{name: J, value: -ab}", []string{text("J", "$append: ' '", "-a")}, "-ab -a"},
		"a text of two parts":    {"{name: J, value: a b}", []string{text("J", "$append: ' '", "b c"), text("J", "$append: ' '", "b c")}, "a b b c"},
		"twice":                  {"{name: J, value: -a}, {name: J, value: v}", []string{text("J", "$append: ' '", "-a")}, "v -a"},
		"prepended":              {"{name: J, value: /x}", []string{text("J", "$prepend: ':'", "/a"), text("J", "$append: ':'", "/z"), text("J", "$prepend: ':'", "/b")}, "/a:/b:/x:/z"},
		"prepended to nothing":   {"", []string{text("J", "$prepend: ':'", "/a"), text("J", "$append: ':'", "/z"), text("J", "$prepend: ':'", "/b")}, "/a:/b:/z"},
		"prepended, there":       {"{name: J, value: '/x:/b'}", []string{text("J", "$prepend: ':'", "/a"), text("J", "$prepend: ':'", "/b")}, "/a:/x:/b"},
		"several of a template":  {"", []string{extend("env: [{name: J, $append: ',', value: a}, {name: J, $append: ',', value: b}, {name: J, $prepend: ',', value: c}]")}, "c,a,b"},
		"to what a template set": {"", []string{text("J", "$onConflict: Deny", "a"), text("J", "$append: ','", "b")}, "a,b"},
		"nothing to join":        {"{name: J, value: x}", []string{text("J", "$append: ','", "")}, "x"},
	} {
		o, err := inject(t, fragmenttest.Decode(t, web(", env: ["+c.env+"]", "")), named(c.all...))
		if err != nil || len(o.warnings) > 0 {
			t.Errorf("%s: %v %q", name, err, o.warnings)
			continue
		}
		if got := at(o.pod, app("env", "name=J", "value")...); got != `"`+c.want+`"` {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestPatchAndUnsetTakeAwayAndGiveBack(t *testing.T) {
	const pod = "metadata: {labels: {app: web, old: x}}\nspec: {runtimeClassName: gvisor, nodeSelector: {disk: ssd}, volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], containers: [" +
		"{name: web, image: 'nginx:1', securityContext: {privileged: true, runAsUser: 0}, livenessProbe: {httpGet: {port: 80, path: /a}, periodSeconds: 3}," +
		"env: [{name: A, value: x}, {name: B, value: q}, {name: A, value: z}], args: [a]}, {name: debug, image: d}]}"
	for name, c := range map[string]struct {
		fragment string
		path     []string
		want     string
	}{
		"a list's item":             {extend("env: [{name: B, $patch: delete}]"), app("env"), `[{"name":"A","value":"x"},{"name":"A","value":"z"}]`},
		"all items of a key":        {extend("env: [{name: A, $patch: delete}]"), app("env"), `[{"name":"B","value":"q"}]`},
		"an item that is not there": {extend("env: [{name: C, $patch: delete}, {name: D, value: d}]"), app("env", "name=D"), `{"name":"D","value":"d"}`},
		"an item replaced":          {extend("env: [{name: B, $patch: replace, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]"), app("env", "name=B"), `{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`},
		"a whole list replaced":     {extend("env: [{$patch: replace}, {name: ONLY, value: x}]"), app("env"), `[{"name":"ONLY","value":"x"}]`},
		"a list emptied":            {extend("env: [{$patch: replace}]"), app("env"), `[]`},
		"a field unset":             {"spec: {$unset: [runtimeClassName]}", []string{"spec", "runtimeClassName"}, "null"},
		"an object deleted":         {extend("securityContext: {$patch: delete}"), app("securityContext"), "null"},
		"an object replaced":        {extend("securityContext: {$patch: replace, runAsNonRoot: true}"), app("securityContext"), `{"runAsNonRoot":true}`},
		"the other handler":         {extend("livenessProbe: {$unset: [httpGet], exec: {command: [ok]}}"), app("livenessProbe"), `{"exec":{"command":["ok"]},"periodSeconds":3}`},
		"a handler deleted":         {extend("livenessProbe: {httpGet: {$patch: delete}, exec: {command: [ok]}}"), app("livenessProbe"), `{"exec":{"command":["ok"]},"periodSeconds":3}`},
		"a label":                   {"metadata: {labels: {$unset: [old]}}", []string{"metadata", "labels"}, `{"app":"web"}`},
		"a volume":                  {"spec: {volumes: [{name: v, $patch: delete}]}", []string{"spec", "volumes"}, `[{"emptyDir":{},"name":"w"}]`},
		"a container":               {"spec: {containers: [{name: debug, $patch: delete}]}", []string{"spec", "containers", "name=debug"}, "null"},
		"a container for another":   {"spec: {containers: [{name: debug, $patch: delete}], initContainers: [{name: debug, image: x}]}", []string{"spec", "initContainers"}, `[{"image":"x","name":"debug"}]`},
		"a container replaced":      {"spec: {containers: [{name: debug, $patch: replace, image: m}]}", []string{"spec", "containers", "name=debug"}, `{"image":"m","name":"debug"}`},
		"what is not there":         {extend("lifecycle: {$unset: [preStop]}, readinessProbe: {$patch: delete}, startupProbe: {exec: {$patch: delete}}"), app("lifecycle"), "null"},
		"kept, when told so":        {extend("env: [{name: B, $patch: delete, $onConflict: KeepPod}]"), app("env", "name=B"), `{"name":"B","value":"q"}`},
	} {
		o, err := inject(t, fragmenttest.Decode(t, pod), named(c.fragment))
		if err != nil || len(o.warnings) > 0 || at(o.pod, c.path...) != c.want {
			t.Errorf("%s: %s, want %s; %v %q", name, at(o.pod, c.path...), c.want, err, o.warnings)
		}
	}
}
