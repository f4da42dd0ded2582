package e2e

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
)

// podsOfTheDemo are the columns that the README leaves out of its command.
const podsOfTheDemo = `custom-columns='POD:.metadata.name,CONTAINERS:.spec.containers[*].name,SIDECARS:.spec.initContainers[*].name,LOG LEVEL:.spec.initContainers[*].env[?(@.name=="FLB_LOG_LEVEL")].value'`

// The first thing that a newcomer sees of Pillion is true. The test runs alone: explain lists the
// templates that there are, and other tests have some.
func TestTheREADMEShowsWhatItsFirstCommandsPrint(t *testing.T) {
	n := newNamespaceCalled(t, asLongAsShop(), nil, nil)
	at := &team{namespace: n, folder: t.TempDir(), kubeconfig: shared.Kubeconfig()}
	transcript.Recorded(t, checkout.Path("README.md"), "demo", *update, func(now string) string {
		want := ""
		for _, c := range transcript.Commands(now) {
			command := strings.NewReplacer("shop", n.name, "custom-columns=…", podsOfTheDemo).Replace(c.Text)
			out := "namespace/shop created\n" // which newNamespace did
			if !strings.HasPrefix(c.Text, "kubectl create namespace") {
				out = shown(c.Text, at.do(t, command), n.name, "shop")
			}
			want += "$ " + c.Text + "\n" + out
		}
		return want
	})
}
