package templates

import (
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

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
