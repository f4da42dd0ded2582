package e2e

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// A team works in its namespace with the rights of the ClusterRole edit, and may annotate its
// namespace.
type team struct {
	*namespace
	folder, kubeconfig string
}

var shops atomic.Int32

// asLongAsShop is a name for a namespace that pages call shop: lines break in the same places. No
// two of a run are the same.
func asLongAsShop() string {
	shops.CompareAndSwap(0, rand.Int31n(10000)+1)
	const letters = "bcdfghjklmnpqrtvwxz2456789"
	name, n := "s", int(shops.Add(1))
	for range len("hop") {
		name += letters[n%len(letters):][:1]
		n /= len(letters)
	}
	return name
}

// newTeam makes a namespace with a team, and a folder for its files.
func newTeam(t *testing.T, annotations, labels map[string]string) *team {
	t.Helper()
	at := &team{namespace: newNamespaceCalled(t, asLongAsShop(), annotations, labels), folder: t.TempDir()}
	at.kubeconfig = filepath.Join(at.folder, "kubeconfig")
	must(t, "", "kubectl", "-n", at.name, "create", "role", "own-namespace", "--verb=get,patch", "--resource=namespaces")
	must(t, "", "kubectl", "-n", at.name, "create", "rolebinding", "team-edit", "--clusterrole=edit", "--user=team")
	must(t, "", "kubectl", "-n", at.name, "create", "rolebinding", "team-own-namespace", "--role=own-namespace", "--user=team")
	c, err := clientcmd.LoadFromFile(shared.Kubeconfig())
	expectNoError(t, err)
	for _, user := range c.AuthInfos {
		user.Impersonate = "team"
	}
	for _, x := range c.Contexts {
		x.Namespace = at.name
	}
	expectNoError(t, clientcmd.WriteToFile(*c, at.kubeconfig))
	return at
}

// teamReadsTemplates lets teams read SidecarTemplates.
func teamReadsTemplates(t *testing.T) {
	t.Helper()
	name := unique("read-templates")
	must(t, "", "kubectl", "create", "clusterrole", name, "--verb=get,list,watch", "--resource=sidecartemplates.pillion.dev")
	must(t, "", "kubectl", "create", "clusterrolebinding", name, "--clusterrole="+name, "--user=team")
	t.Cleanup(func() { remove(t, "clusterrole/"+name, "clusterrolebinding/"+name) })
}

// do runs a command in a shell as the team, and returns what a terminal would show.
func (at *team) do(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = at.folder
	cmd.Env = append(shared.Env(), "KUBECONFIG="+at.kubeconfig)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// asAdmin is the same place, with a cluster admin's rights.
func (at *team) asAdmin() *team {
	return &team{namespace: at.namespace, folder: at.folder, kubeconfig: shared.Kubeconfig()}
}

func (at *team) write(t *testing.T, name, text string) {
	t.Helper()
	expectNoError(t, os.WriteFile(filepath.Join(at.folder, name), []byte(text), 0o600))
}

// seen runs commands and returns them with their output, as a page shows them. The namespace is
// called shop there.
func (at *team) seen(t *testing.T, commands ...string) string {
	t.Helper()
	var text strings.Builder
	for _, command := range commands {
		out := at.do(t, strings.NewReplacer("namespace shop", "namespace "+at.name, "-n shop", "-n "+at.name).Replace(command))
		fmt.Fprintf(&text, "$ %s\n%s", command, shown(command, out, at.name, "shop"))
	}
	return text.String()
}
