package templates_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

const canaryStable = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs}
spec:
  match: {namespaceSelector: {matchLabels: {team: a}}}
  required: true
  order: 7
  inject: {spec: {initContainers: [{name: logs, image: "logs:1", restartPolicy: Always}]}}
`

func canaryOf(fields string) string {
	return `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs-next}
spec:
  ` + fields + `
  inject: {spec: {initContainers: [{name: logs, image: "logs:2", restartPolicy: Always}]}}
`
}

func TestACanaryIsPairedWithItsStableTemplate(t *testing.T) {
	promoted := templatestest.Compile(t, strings.ReplaceAll(canaryStable, "logs:1", "logs:2"))
	set := templatestest.Set(t, canaryOf("canary: {of: logs, percent: 100}\n  verify: {images: ['logs:*']}"), canaryStable)
	if _, ok := set.Get("logs-next"); ok || len(set.Entries()) != 1 || len(set.All()) != 2 {
		t.Errorf("pods can ask for the canary: %v", set.All())
	}
	canaries := set.CanariesOf("logs")
	if len(canaries) != 1 || canaries[0].Unusable != nil || canaries[0].Version.Name() != "logs" || !canaries[0].Version.Spec().Required || canaries[0].Version.Order() != 7 {
		t.Fatalf("%+v", canaries)
	}
	if plain := templatestest.Set(t, canaryOf("canary: {of: logs}"), canaryStable).CanariesOf("logs")[0].Version; plain.Hash() != promoted.Hash() {
		t.Error("the canary has another hash than the stable template after a promotion")
	}
	for _, c := range []struct{ name, manifest, want string }{
		{"of none", canaryOf("canary: {of: log}"), `there is no template "log"`},
		{"of a required one", canaryOf("canary: {of: logs}\n  overridable: true"), "spec.overridable"},
	} {
		got, ok := templatestest.Set(t, c.manifest, canaryStable).Canary("logs-next")
		if !ok || got.InForce() || got.Unusable == nil || !strings.Contains(got.Unusable.Error(), c.want) {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
	labelling := strings.Replace(canaryStable, "inject: {", "inject: {metadata: {labels: {logged: 'yes'}}, ", 1)
	for selector, unusable := range map[string]bool{"matchLabels: {logged: 'yes'}": true, "matchExpressions: [{key: logged, operator: Exists}]": true, "matchLabels: {track: next}": false} {
		got, _ := templatestest.Set(t, canaryOf("canary: {of: logs, podSelector: {"+selector+"}}"), labelling).Canary("logs-next")
		if says := fmt.Sprint(got.Unusable); got.InForce() == unusable || unusable && !strings.Contains(says, `by the label "logged", which the template "logs" itself sets`) {
			t.Errorf("%s: %s", selector, says)
		}
	}
	suspended := templatestest.Set(t, canaryOf("canary: {of: logs, percent: 100}\n  suspend: true"), canaryStable)
	if c := suspended.CanariesOf("logs")[0]; c.Selects(nil, nil, nil) || c.Version.Hash() != promoted.Hash() || c.Version.Spec().Suspend {
		t.Errorf("a suspended canary selects pods, or a promotion would suspend the template: %+v", c)
	}
}
