package main

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
)

// settingsOf reads the settings of the server in a cluster.
func settingsOf(t *testing.T, manifests ...string) (inspect.Settings, error) {
	t.Helper()
	c := inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), inspecttest.Options{Place: inspect.Place{Namespace: "sidecars"}, Serve: served})
	return c.Settings(t.Context())
}

const servingDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: pillion, namespace: sidecars}
spec:
  template:
    spec:
      containers:
      - name: pillion
        args: [serve, --annotation-prefix=sidecars.example.com, "--library=fluent-bit,debug-toolbox", --templates=/etc/pillion/templates, --values=/etc/pillion/values/values.yaml,
          --webhook-configuration=pillion, --a-flag-of-a-later-version=x]
        env: [{name: PILLION_EXCLUDED_NAMESPACES, value: "kube-system,infra"}]
        volumeMounts: [{name: templates, mountPath: /etc/pillion/templates}, {name: values, mountPath: /etc/pillion/values}]
      volumes: [{name: templates, configMap: {name: own-templates}}, {name: values, configMap: {name: own-values}}]
`

const servingFiles = `
apiVersion: v1
kind: ConfigMap
metadata: {name: own-templates, namespace: sidecars}
data:
  proxy.yaml: |
    apiVersion: pillion.dev/v1alpha1
    kind: SidecarTemplate
    metadata: {name: proxy}
    spec: {inject: {spec: {containers: [{name: proxy, image: "${values.registry}/proxy:1"}]}}}
  README: no template
`

const servingValues = `
apiVersion: v1
kind: ConfigMap
metadata: {name: own-values, namespace: sidecars}
data: {values.yaml: "registry: mirror.example.com"}
`

func TestTheSettingsOfTheServerAreReadFromItsDeployment(t *testing.T) {
	for flag, all := range map[string]bool{"--webhook-scope=Requested": false, "--webhook-scope=All": true} {
		s, err := settingsOf(t, strings.Replace(servingDeployment, "--a-flag", flag+", --a-flag", 1), servingFiles, servingValues, `
apiVersion: sidecars.example.com/v1alpha1
kind: SidecarTemplate
metadata: {name: own}
spec: {inject: {spec: {containers: [{name: own, image: own}]}}}
`)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range s.Templates.All() {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != "debug-toolbox fluent-bit own proxy" || s.Prefix != "sidecars.example.com" || strings.Join(s.Excluded, " ") != "kube-system infra sidecars" || s.All != all {
			t.Errorf("templates %s, prefix %s, excluded %v, all namespaces %v; want all namespaces %v", got, s.Prefix, s.Excluded, s.All, all)
		}
	}
}

func TestSettingsThatCannotBeReadAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		manifests []string
		want      string
	}{
		"no Deployment":     {want: "looking for Pillion's Deployment: 0 in namespace sidecars have a container called pillion that serves; there must be one"},
		"no ConfigMap":      {[]string{servingDeployment}, `reading ConfigMap own-values in namespace sidecars, which Pillion reads as /etc/pillion/values`},
		"a file of its own": {[]string{strings.Replace(servingDeployment, "--annotation-prefix=", "--config=/etc/pillion.yaml, --annotation-prefix=", 1)}, "they name the file /etc/pillion.yaml, which this command cannot read"},
		"values in no ConfigMap": {[]string{strings.Replace(servingDeployment, "{name: values, mountPath: /etc/pillion/values}", "{name: values, mountPath: /elsewhere}", 1), servingFiles},
			"reading what Pillion reads as /etc/pillion/values: Deployment pillion in namespace sidecars mounts no ConfigMap there"},
		"a template of another version": {[]string{strings.Replace(servingDeployment, "debug-toolbox", "later", 1), servingFiles, servingValues}, "use the pillion of that version"},
	} {
		_, err := settingsOf(t, test.manifests...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
