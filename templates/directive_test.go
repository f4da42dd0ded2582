package templates_test

import (
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

func TestTheItemThatReplacesAListStandsInListsThatGather(t *testing.T) {
	for fragment, good := range map[string]bool{
		"tolerations: [{$patch: replace}, {key: z, operator: Exists}]":                                   true,
		"dnsConfig: {options: [{$patch: replace}, {name: ndots}]}":                                       true,
		"containers: [{$each: App, envFrom: [{$patch: replace}, {configMapRef: {name: nn}}]}]":           true,
		"tolerations: [{$patch: delete, key: z}]":                                                        false,
		"containers: [{$each: App, envFrom: [{configMapRef: {$patch: replace, name: nn}}]}]":             false,
		"affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{$patch: replace}]}}": false,
	} {
		manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec: {inject: {spec: {" + fragment + "}}}\n"
		if _, _, err := templates.Compile([]byte(manifest), templates.Options{}); (err == nil) != good {
			t.Errorf("%s: %v", fragment, err)
		}
	}
}
