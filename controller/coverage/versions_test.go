package coverage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

func TestPodsAreCountedByVersionAndByWhetherTheyAreReady(t *testing.T) {
	set := templatestest.Set(t,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:1"}]}}}}`,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: next}, spec: {canary: {of: side, percent: 10}, inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:2"}]}}}}`,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: rare}, spec: {inject: {metadata: {labels: {a: b}}}}}`)
	entry, _ := set.Get("side")
	canary, _ := set.Canary("next")
	restarted := func(ago time.Duration) string {
		return fmt.Sprintf(`, "containerStatuses": [{"name": "app", "lastState": {"terminated": {"finishedAt": %q}}}]`, time.Now().Add(-ago).UTC().Format(time.RFC3339))
	}
	const ready = `"conditions": [{"type": "Ready", "status": "True"}]`
	all := []struct{ template, hash, status string }{
		{"side", entry.Template.Hash(), ready},
		{"side", entry.Template.Hash(), ready + restarted(time.Hour)},
		{"side", entry.Template.Hash(), ready + `, "phase": "Succeeded"`},
		{"side", canary.Version.Hash(), ready},
		{"side", canary.Version.Hash(), ready + restarted(time.Minute)},
		{"side", canary.Version.Hash(), ready + strings.Replace(restarted(time.Minute), "container", "initContainer", 1)},
		{"side", canary.Version.Hash(), `"conditions": [{"type": "Ready", "status": "False"}]`},
		{"side", "0123456789abcdef", `"phase": "Pending"`},
		{"unheard", "0123456789abcdef", ready}, // no template of the cluster
	}
	c := &cluster{pods: map[string]int{"shop": len(all)}, pod: func(namespace string, n int) string {
		p := all[n]
		record := fmt.Sprintf(`{\"v\":1,\"templates\":{\"%s\":\"%s\"}}`, p.template, p.hash)
		return fmt.Sprintf(`{"metadata":{"name":"web-%d","namespace":%q,"annotations":{"pillion.dev/status":"%s"}},"spec":{"containers":[{"name":"web","image":"web:1"}]},"status":{%s}}`, n, namespace, record, p.status)
	}}
	counter, _ := counterOf(t, c, namespace("shop", "enabled"))
	counter.options.Templates = func() *templates.Set { return set }
	counter.record(counter.scan(t.Context()))
	const want = `
# HELP pillion_pods Pods with a template by version. ready is true for a pod with the condition Ready whose containers have not restarted for 10 minutes.
# TYPE pillion_pods gauge
pillion_pods{ready="false",template="side",version="(others)"} 1
pillion_pods{ready="false",template="side",version="(stable)"} 0
pillion_pods{ready="false",template="side",version="next"} 3
pillion_pods{ready="true",template="side",version="(others)"} 0
pillion_pods{ready="true",template="side",version="(stable)"} 2
pillion_pods{ready="true",template="side",version="next"} 1
`
	if err := testutil.CollectAndCompare(counter, strings.NewReader(want), "pillion_pods"); err != nil {
		t.Error(err)
	}

	// The versions that are to be compared are there before any pod has one.
	c.pods = nil
	counter.record(counter.scan(t.Context()))
	if n := testutil.CollectAndCount(counter, "pillion_pods"); n != 4 {
		t.Errorf("without pods there are %d series of the template and its canary", n)
	}
}
