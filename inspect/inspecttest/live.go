package inspecttest

import (
	"testing"

	"github.com/pillion-dev/pillion/inspect"
)

// Settings is the ConfigMap by which commands find Pillion.
const Settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: pillion, namespace: pillion-system, labels: {app.kubernetes.io/name: pillion, app.kubernetes.io/component: settings}}
data:
  settings.yaml: |
    server: {namespace: pillion-system}
`

// Shop has a namespace that asks for a sidecar, whose label came late, and a Deployment
// with three pods: one as it would be created now, one with an older sidecar, one without.
const Shop = Settings + `
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  parameters:
  - {name: image, type: image, default: "registry.example.com/side:2"}
  - {name: level, type: string, default: low}
  - {name: size, type: quantity, default: 1Mi, maximum: 1Gi}
  inject:
    metadata: {labels: {team: sidecars}}
    spec:
      initContainers:
      - {name: side, restartPolicy: Always, image: "${params.image}", env: [{name: LEVEL, value: "${params.level}"}], resources: {limits: {memory: "${params.size}"}}}
      containers:
      - {$each: App, env: [{name: SIDE, value: "on"}]}
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: other}
spec: {inject: {metadata: {labels: {other: "true"}}}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {kubernetes.io/metadata.name: shop, pillion.dev/injection: enabled}
  annotations: {pillion.dev/inject: side, side.pillion.dev/size: 2Mi, pillion.dev/injekt: side}
  managedFields:
  - {manager: pillion, operation: Apply, time: "2026-11-22T10:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:pillion.dev/injection": {}}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, annotations: {pillion.dev/inject: other}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, team: web}}
    spec: {containers: [{name: web, image: "web:1", env: [{name: SIDE, value: "off"}]}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-5d8f, namespace: shop, uid: r, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}
spec:
  template:
    metadata: {labels: {app: web, team: web, pod-template-hash: 5d8f}}
    spec: {containers: [{name: web, image: "web:1", env: [{name: SIDE, value: "off"}]}]}
`

// TeamsRights are what a team may not do that has the role edit in its namespace, and no right
// elsewhere.
var TeamsRights = []string{"list configmaps pillion-system", "get mutatingwebhookconfigurations"}

// Live returns the cluster of manifests such as [Shop], as the user mia sees it, who may not do what
// forbidden names.
func Live(t testing.TB, manifests string, pods []map[string]any, forbidden ...string) *inspect.Live {
	t.Helper()
	live, err := Cluster(t, manifests, Options{Place: inspect.Place{Namespace: "pillion-system"}, Pods: pods, Forbidden: forbidden}).Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	live.Fallback = "shop"
	return live
}
