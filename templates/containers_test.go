package templates

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// A variable that many items read is evaluated once for the pod, and one that reads the
// container once for each container: what it costs says so.
func TestVariablesAreEvaluatedOnceForWhatTheyRead(t *testing.T) {
	const dear = "lists.range(400).map(i, i + 1).size()"
	spec := func(of string, items int) string {
		s := fmt.Sprintf("variables: [{name: v, expression: \"%s\"}]\ninject:\n  spec:\n    containers:\n", fmt.Sprintf(of, dear))
		for i := range items {
			s += fmt.Sprintf("    - {$each: App, env: [{name: N%d, value: '${variables.v}'}]}\n", i)
		}
		return s
	}
	render := func(of string, items, containers int) error {
		pod := raw(t, `{"spec":{"containers":[]}}`)
		var all []any
		for i := range containers {
			all = append(all, map[string]any{"name": fmt.Sprint("c", i)})
		}
		pod["spec"].(map[string]any)["containers"] = all
		_, err := compiled(t, spec(of, items)).Render(t.Context(), Input{Pod: pod})
		return err
	}
	var failed *RenderError
	if err := render("string(pod.spec.containers.size() + %s)", 10, 100); err != nil {
		t.Errorf("a variable of the pod: %v", err)
	}
	if err := render("container.name + string(%s)", 10, 3); err != nil {
		t.Errorf("a variable of three containers: %v", err)
	}
	if err := render("container.name + string(%s)", 1, 400); !errors.As(err, &failed) || !failed.TooExpensive {
		t.Errorf("a variable of 400 containers: %v; want the bound on costs", err)
	}
}

// A variable that fails is evaluated once as well, however often its error is caught.
func TestAVariableThatFailsIsEvaluatedOnce(t *testing.T) {
	tmpl := compiled(t, `variables: [{name: bad, expression: "lists.range(900).map(i, pod.spec.containers[9 + i].name == '')[0]"}]
inject: {spec: {hostNetwork: "${lists.range(900).exists(i, variables.bad || i == 899)}"}}`)
	wantFragment(t, rendered(t, tmpl, Input{Pod: onePod(t, nil)}).Fragment, `{"spec":{"hostNetwork":true}}`)
}

// meshed is a pod in which a mesh and a secret injector have been.
const meshed = `{"spec":{
	"initContainers":[{"name":"istio-init","image":"i"},{"name":"migrate","image":"i"},{"name":"linkerd-proxy","image":"l","restartPolicy":"Always"}],
	"containers":[{"name":"web","image":"c"},{"name":"istio-proxy","image":"i"},{"name":"own-proxy","image":"o"}]}}`

func TestSidecarsOfOtherInjectorsAreNotTheApps(t *testing.T) {
	const (
		app  = "{$each: App, env: [{name: A}]}"
		init = "{$each: Init, env: [{name: A}]}"
		all  = "{$each: All, env: [{name: A}]}"
		yes  = `,"env":[{"name":"A"}]}`
	)
	for name, c := range map[string]struct {
		item, more string
		foreign    []string
		want       string
	}{
		"App":                    {app, "", nil, `{"spec":{"containers":[{"name":"web"` + yes + `,{"name":"own-proxy"` + yes + `]}}`},
		"Init":                   {init, "", nil, `{"spec":{"initContainers":[{"name":"migrate"` + yes + `]}}`},
		"All":                    {all, "", nil, `{"spec":{"initContainers":[{"name":"istio-init"` + yes + `,{"name":"migrate"` + yes + `,{"name":"linkerd-proxy"` + yes + `],"containers":[{"name":"web"` + yes + `,{"name":"istio-proxy"` + yes + `,{"name":"own-proxy"` + yes + `]}}`},
		"a name":                 {"{name: istio-proxy, env: [{name: A}]}", "", nil, `{"spec":{"containers":[{"name":"istio-proxy"` + yes + `]}}`},
		"names of the installer": {app, "", []string{"own-proxy"}, `{"spec":{"containers":[{"name":"web"` + yes + `,{"name":"istio-proxy"` + yes + `]}}`},
		"none":                   {app, "", []string{}, `{"spec":{"containers":[{"name":"web"` + yes + `,{"name":"istio-proxy"` + yes + `,{"name":"own-proxy"` + yes + `]}}`},
		"a required template goes by no name": {app, "required: true\nmatch: {podSelector: {matchLabels: {app: web}}}\n", nil,
			`{"spec":{"containers":[{"name":"web"` + yes + `,{"name":"istio-proxy"` + yes + `,{"name":"own-proxy"` + yes + `]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			template := compiledWith(t, manifestOf(c.more+"inject: {spec: {containers: ["+c.item+"]}}"), Options{ForeignSidecars: c.foreign})
			wantFragment(t, rendered(t, template, Input{Pod: raw(t, meshed)}).Fragment, c.want)
		})
	}
}

func TestTheHashTellsWhichSidecarsAreForeignWhereItMatters(t *testing.T) {
	hash := func(spec string, foreign ...string) string {
		return compiledWith(t, manifestOf(spec), Options{ForeignSidecars: append([]string{}, foreign...)}).Hash()
	}
	const app, all, none = "inject: {spec: {containers: [{$each: App, env: [{name: A}]}]}}", "inject: {spec: {containers: [{$each: All, env: [{name: A}]}]}}", "inject: {spec: {hostname: a}}"
	if hash(app, "a", "b") != hash(app, "b", "a") {
		t.Error("the order of the names counts")
	}
	if hash(app, "a") == hash(app, "b") {
		t.Error("a template with $each: App has the same hash with other names")
	}
	for _, spec := range []string{all, none} {
		if hash(spec, "a") != hash(spec, "b") {
			t.Errorf("%s: the names count, and it does not read them", spec)
		}
	}
}

// TestTheChartHasTheSameForeignSidecars compares the chart's default with the program's.
func TestTheChartHasTheSameForeignSidecars(t *testing.T) {
	data, err := os.ReadFile("../charts/pillion/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ ForeignSidecars []string }
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(values.ForeignSidecars, DefaultForeignSidecars()) {
		t.Errorf("the chart has %q,\nthe program %q", values.ForeignSidecars, DefaultForeignSidecars())
	}
}

func TestRestrictedFillsInWhatTheTemplateAndThePodLeaveOpen(t *testing.T) {
	const (
		all     = `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`
		sidecar = "{name: s, image: s}"
	)
	with := func(security string) string { return "{name: s, image: s, securityContext: " + security + "}" }
	for name, c := range map[string]struct{ pod, item, want string }{
		"nothing is said":         {`{}`, sidecar, all},
		"an empty object":         {`{"securityContext":{}}`, with("{}"), all},
		"the pod says it all":     {`{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"Localhost","localhostProfile":"x"}}}`, sidecar, `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`},
		"the pod says too little": {`{"securityContext":{"runAsNonRoot":false,"seccompProfile":{"type":"Unconfined"}}}`, sidecar, all},
		"the template's own stays": {`{}`, with("{allowPrivilegeEscalation: true, runAsNonRoot: false, capabilities: {drop: [NET_RAW]}, seccompProfile: {type: Unconfined}}"),
			`{"allowPrivilegeEscalation":true,"runAsNonRoot":false,"capabilities":{"drop":["NET_RAW"]},"seccompProfile":{"type":"Unconfined"}}`},
		"added capabilities stay":                       {`{}`, with("{capabilities: {add: [NET_BIND_SERVICE]}}"), `{"allowPrivilegeEscalation":false,"capabilities":{"add":["NET_BIND_SERVICE"],"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"root is told to be root":                       {`{}`, with("{runAsUser: 0}"), `{"runAsUser":0,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"the pod's root":                                {`{"securityContext":{"runAsUser":0}}`, sidecar, `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a user instead of the pod's root":              {`{"securityContext":{"runAsUser":0}}`, with("{runAsUser: 65532}"), `{"runAsUser":65532,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a privileged one, of which the API refuses it": {`{}`, with("{privileged: true}"), `{"privileged":true,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"SYS_ADMIN, with which the API refuses it":      {`{}`, with("{capabilities: {add: [SYS_ADMIN]}}"), `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a pod for Windows":                             {`{"os":{"name":"windows"}}`, with("{windowsOptions: {runAsUserName: ContainerUser}}"), `{"windowsOptions":{"runAsUserName":"ContainerUser"},"runAsNonRoot":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			template := compiled(t, "containerSecurity: Restricted\ninject: {spec: {containers: ["+c.item+", {name: web, env: [{name: A}]}], initContainers: ["+c.item+"]}}")
			pod := raw(t, `{"spec":`+c.pod+`}`)
			item := `{"name":"s","image":"s","securityContext":` + c.want + `}`
			want := `{"spec":{"containers":[` + item + `,{"name":"web","env":[{"name":"A"}]}],"initContainers":[` + item + `]}}`
			wantFragment(t, rendered(t, template, Input{Pod: pod}).Fragment, want)
		})
	}
}

// What the template says of the pod as a whole counts, unless the pod says otherwise.
func TestRestrictedReadsTheTemplatesPodSecurityContext(t *testing.T) {
	template := compiled(t, "containerSecurity: Restricted\ninject: {spec: {securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: s, image: s}]}}")
	fragment := func(security string) string {
		return `{"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"s","image":"s","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}` + security + `}}]}}`
	}
	wantFragment(t, rendered(t, template, Input{Pod: raw(t, `{"spec":{}}`)}).Fragment, fragment(""))
	wantFragment(t, rendered(t, template, Input{Pod: raw(t, `{"spec":{"securityContext":{"runAsNonRoot":false}}}`)}).Fragment, fragment(`,"runAsNonRoot":true`))
}
