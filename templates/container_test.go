package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// perContainer is a spec with variables that read container, one of them through another.
const perContainer = `variables:
- {name: team, expression: "namespaceObject.metadata.name + '-team'"}
- {name: port, expression: "container.?ports[?0].?containerPort.orValue(0)"}
- {name: address, expression: "variables.team + ':' + string(variables.port)"}
- {name: names, expression: "pod.spec.containers.map(container, container.name).join(',')"}
inject:
  metadata: {annotations: {names: "${variables.names}"}}
  spec:
    containers:
    - $each: All
      env:
      - {name: ADDRESS, value: "${variables.address}"}
      - {$if: "variables.port != 0", $for: "x in [variables.port]", name: "PORT_${x}", value: "${variables.?port.orValue(1)}"}
    - {$each: App, workingDir: "/${variables.address}"}`

func TestAVariableMayReadTheContainerOfEach(t *testing.T) {
	got := rendered(t, compiled(t, perContainer), Input{Pod: raw(t, twoAndTwo), Namespace: Namespace{Name: "shop"}})
	wantFragment(t, got.Fragment, `{"metadata":{"annotations":{"names":"c1,c2"}},"spec":{
		"initContainers":[{"name":"i1","env":[{"name":"ADDRESS","value":"shop-team:0"}]},{"name":"i2","env":[{"name":"ADDRESS","value":"shop-team:0"}]}],
		"containers":[{"name":"c1","env":[{"name":"ADDRESS","value":"shop-team:80"},{"name":"PORT_80","value":"80"}],"workingDir":"/shop-team:80"},
			{"name":"c2","env":[{"name":"ADDRESS","value":"shop-team:0"}],"workingDir":"/shop-team:0"}]}}`)
}

func TestAVariableThatReadsTheContainerIsReadWhereThereIsOne(t *testing.T) {
	const variables = "variables: [{name: port, expression: 'container.ports[0].containerPort'}, {name: twice, expression: 'variables.port * 2'}]\n"
	const inject = "inject: {spec: {hostname: a}}"
	for name, c := range map[string]struct{ spec, at, want string }{
		"a validation":           {variables + "validations: [{name: a, expression: 'variables.port > 0'}]\n" + inject, "spec.validations[0].expression", "the variable port reads container, so it has a value only where there is one: in an item of spec.containers with $each"},
		"a condition, indirect":  {variables + "matchConditions: [{name: a, expression: 'variables.twice > 0'}]\n" + inject, "spec.matchConditions[0].expression", "the variable twice reads container"},
		"outside of $each":       {variables + "inject: {spec: {priority: '${variables.?port.orValue(1)}'}}", "spec.inject.spec.priority", "the variable port reads container"},
		"in $for by its name":    {variables + "inject: {spec: {volumes: [{$for: 'container in pod.spec.containers', name: 'v${variables.port}', emptyDir: {}}]}}", "spec.inject.spec.volumes[0].name", "the variable port reads container"},
		"container outside":      {"inject: {spec: {hostname: '${container.name}'}}", "spec.inject.spec.hostname", "it is there in items with $each, and in variables that such items read"},
		"a field it cannot have": {"variables: [{name: port, expression: 'container.prots'}]\n" + inject, "spec.variables[0].expression", "has no field prots"},
	} {
		_, _, err := Compile(manifestOf(c.spec), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || broken.Problems[0].Path != c.at || !strings.Contains(broken.Problems[0].Message, c.want) {
			t.Errorf("%s: %v; want %q at %s", name, err, c.want, c.at)
		}
	}
	whole := compiled(t, variables+"inject: {metadata: {annotations: {a: '${toJson(variables)}'}}, spec: {containers: [{$each: App, $if: 'has(container.ports)', workingDir: '/${variables.twice}'}]}}")
	got := rendered(t, whole, Input{Pod: raw(t, twoAndTwo)})
	wantFragment(t, got.Fragment, `{"metadata":{"annotations":{"a":"{}"}},"spec":{"containers":[{"name":"c1","workingDir":"/160"}]}}`)
}

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
