package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A container reads $(NAME) as the last NAME in front of it. So a variable that has the required value is not enough.
func TestAVariableOfTheAppRefersToTheOnesThatAreRequired(t *testing.T) {
	set := templatestest.Set(t, mandatory("r", `inject: {spec: {containers: [{$each: App, env: [{name: DIR, value: /agent}, {name: OPTS, value: "$(DIR)/x $(OWN) $(OPTS)"}, {name: PLAIN, value: "1"}]}]}}`))
	const dir, options, says = `{"name":"DIR","value":"/agent"}`, `{"name":"OPTS","value":"$(DIR)/x $(OWN) $(OPTS)"}`, "spec.containers[name=app].env[name=DIR] must come before OPTS, which refers to it, with no other value in front"
	for env, says := range map[string]string{
		``:                                       "",
		options:                                  says,
		dir:                                      "",
		`{"name":"PLAIN","value":"1"}`:           "",
		dir + `,` + options:                      "",
		options + `,` + dir:                      says,
		`{"name":"OPTS"},` + dir + `,` + options: "",
		`{"name":"DIR","value":"/evil"},` + options + `,` + dir:                   says,
		dir + `,{"name":"DIR","value":"/evil"},` + options + `,` + dir:            says,
		`{"name":"DIR","value":"/evil"},` + dir + `,` + options:                   "",
		dir + `,` + options + `,{"name":"DIR","value":"/evil"},` + dir:            "",
		dir + `,` + options + `,{"name":"DIR","value":"/evil"}`:                   `is {"name":"DIR","value":"/evil"}`,
		`{"name":"OWN","value":"$(DIR)"},` + dir + `,` + options:                  "",
		options + `,` + dir + `,` + options + `,{"name":"OWN","value":"$(OPTS)"}`: "",
	} {
		pod := podOf(t, `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1","env":[`+env+`]}]}}`)
		_, got := injectedAndVerified(t, set, pod)
		wantSays(t, env, got, says)
	}
}

// A pod has other labels when it is verified than when it came: a required template sets some of them.
func TestLabelsThatRequiredTemplatesSetChooseTheSameOnCreationAndOnVerification(t *testing.T) {
	tier := `podSelector: {matchLabels: {tier: db}}`
	selecting := func(name, selector, inject string) string {
		return manifestNamed(name, "required: true, match: {"+selector+"}, "+inject)
	}
	sets := mandatory("a", `inject: {metadata: {labels: {tier: db}}, spec: {containers: [{name: a, image: "a:1"}]}}`)
	for why, c := range map[string]struct {
		templates []string
		want      string // the names of the containers
	}{
		"a canary selects by the label that its template sets": {[]string{sets, manifestNamed("a-next", `canary: {of: a, percent: 100, `+tier+`}, inject: {spec: {containers: [{name: a, image: "a:2"}]}}`)}, "app a"},
		"as many are deselected as are selected": {[]string{sets,
			selecting("b", tier, `inject: {spec: {containers: [{name: b, image: "b:1"}]}}`),
			selecting("c", `podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}`, `inject: {spec: {containers: [{name: c, image: "c:1"}]}}`)}, "app a b c"},
	} {
		set := templatestest.Set(t, c.templates...)
		pod, refusal := injectedAndVerified(t, set, podOf(t, plainPod))
		wantSays(t, why, refusal, "")
		var names []string
		for _, container := range itemsOf(pod, "containers") {
			names = append(names, nameOf(container))
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: the containers are %s; want %s", why, got, c.want)
		}
	}
}
