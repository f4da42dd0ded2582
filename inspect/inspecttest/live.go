package inspecttest

import (
	_ "embed"
	"testing"

	"github.com/pillion-dev/pillion/inspect"
)

// Settings is the ConfigMap by which commands find Pillion.
//
//go:embed testdata/settings.yaml
var Settings string

// Shop has a namespace that asks for a sidecar, whose label came late, and a Deployment
// with three pods: one as it would be created now, one with an older sidecar, one without.
var Shop = Settings + shop

//go:embed testdata/shop.yaml
var shop string

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
