package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/e2e/readme"
)

// podsOfTheDemo are the columns that the README leaves out of its command.
const podsOfTheDemo = `custom-columns='POD:.metadata.name,CONTAINERS:.spec.containers[*].name,SIDECARS:.spec.initContainers[*].name,LOG LEVEL:.spec.initContainers[*].env[?(@.name=="FLB_LOG_LEVEL")].value'`

// What the README shows of the pods of its first commands is true. The test runs alone: explain
// lists the templates that there are, and other tests have some.
func TestTheREADMEShowsWhatItsFirstCommandsPrint(t *testing.T) {
	n := newNamespaceCalled(t, asLongAsShop(), nil, open()) // as the README's install leaves it, which enforces only what is required
	at := &team{namespace: n, folder: t.TempDir(), kubeconfig: shared.Kubeconfig()}
	printed := func(command string) string {
		return shown(command, at.do(t, strings.NewReplacer("shop", n.name, "custom-columns=…", podsOfTheDemo).Replace(command)), n.name, "shop")
	}
	path := checkout.Path("README.md")
	text, err := os.ReadFile(path)
	expectNoError(t, err)
	for _, c := range readme.Commands(string(text)) {
		if c.Section == "The first sidecar" && c.Text != "kubectl create namespace shop" { // which newNamespaceCalled did
			printed(c.Text)
		}
	}
	for _, name := range []string{"pods", "explain"} {
		transcript.Recorded(t, path, name, *update, func(now string) string {
			want := ""
			for _, c := range transcript.Commands(now) {
				want += "$ " + c.Text + "\n" + printed(c.Text)
			}
			return want
		})
	}
}
