package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// An extraReplica is a Pillion that no API server calls.
type extraReplica struct {
	ground.Replica
	log *lines
}

// lines gathers what a process says.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// ofReplica is the path of what the kernel says of the running replica's process.
func ofReplica(name string) string {
	return fmt.Sprintf("/proc/%d/%s", shared.Replicas(ground.Namespace)[0].PID, name)
}

// listOfReplica is one of these that is a list: "cmdline" or "environ".
func listOfReplica(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(ofReplica(name))
	expectNoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// oneMore starts one more Pillion beside the running replica, with the same environment and
// service account, and the same arguments but those that begin with without, and these in
// addition.
func oneMore(t *testing.T, without string, more ...string) *extraReplica {
	t.Helper()
	free := func() netip.AddrPort {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		expectNoError(t, err)
		defer listener.Close()
		return listener.Addr().(*net.TCPAddr).AddrPort()
	}
	program, err := os.Readlink(ofReplica("exe"))
	expectNoError(t, err)
	r := &extraReplica{ground.Replica{Serve: free(), Admin: free()}, &lines{}}
	args := slices.DeleteFunc(listOfReplica(t, "cmdline")[1:], func(arg string) bool { return without != "" && strings.HasPrefix(arg, without) })
	cmd := exec.Command(program, append(append(args, "--listen="+r.Serve.String(), "--admin-listen="+r.Admin.String()), more...)...)
	cmd.Env, cmd.Stderr = listOfReplica(t, "environ"), r.log
	expectNoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the new replica's log:\n%s", r.log)
		}
	})
	return r
}

// missing returns what the replica lacks, and "" once it is ready.
func (r *extraReplica) missing() string {
	status, text, err := asked(r.Replica, "/readyz")
	switch {
	case err != nil:
		return err.Error()
	case status == http.StatusOK:
		return ""
	}
	return text
}

// inUse waits until the running replica has recorded that a template is in use.
func inUse(t *testing.T, template string) {
	t.Helper()
	eventually(t, soon, func() error {
		m, err := client.CoreV1().ConfigMaps(ground.Namespace).Get(t.Context(), "pillion-templates-in-use", metav1.GetOptions{})
		if err != nil || !strings.Contains("\n"+m.Data["templates"]+"\n", "\n"+template+"\n") {
			return fmt.Errorf("the templates in use are %v (%v), want %s among them", m, err, template)
		}
		return nil
	})
}

// Not in parallel: other tests' namespaces name templates of the library.
func TestAReplicaThatLacksATemplateThatNamespacesNameIsNotReady(t *testing.T) {
	n := newNamespace(t, asking("debug-toolbox"), nil)
	newNamespace(t, asking("never-was-one"), nil)
	inUse(t, "debug-toolbox")
	upgraded := oneMore(t, "--library=")
	var said string
	eventually(t, soon, func() error {
		if said = upgraded.missing(); !strings.Contains(said, "templates in use: templates named by namespaces are missing: debug-toolbox (") {
			return fmt.Errorf("the new replica says %q", said)
		}
		return nil
	})
	for _, want := range []string{n.name, "helm rollback", "allowMissingTemplates={debug-toolbox}"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if strings.Contains(said, "never-was-one") {
		t.Errorf("a name that never was a template's holds it up: %q", said)
	}
	injects(t, n, "debug-toolbox") // the running one goes on
	if upgraded.missing() == "" {
		t.Error("the new replica is ready")
	}
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"-")
	eventually(t, soon, func() error { return nonEmpty("with the annotation off, the new replica", upgraded.missing()) })
}

// nonEmpty is an error that says what somebody said.
func nonEmpty(who, said string) error {
	if said == "" {
		return nil
	}
	return fmt.Errorf("%s says %q", who, said)
}

// Whoever corrected the name instead would take the sidecar from pods that are made anew.
func TestCheckHasATemplateAppliedAgainWhosePodsStillRun(t *testing.T) {
	t.Parallel()
	m := served(t, sidecarSpec)
	n := newNamespace(t, asking(m.name), nil)
	injects(t, n, m.name)
	n.mustCreate(t, newPod("web", nil))
	must(t, "", "kubectl", "annotate", "sidecartemplate", m.name, "pillion.dev/allow-delete=true")
	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
	eventually(t, soon, func() error {
		_, found := checking(t).find("template-names", "namespace "+n.name+" ")
		if len(found) != 1 || !strings.Contains(found[0].Message, "pods of it run with the sidecar of "+m.name) || found[0].Remedy != "kubectl apply -f SIDECARTEMPLATES" {
			return fmt.Errorf("template-names: %+v", found)
		}
		return nil
	})
	does(t, "kubectl apply -f "+inFile(t, "template.yaml", m.yaml()))
	injects(t, n, m.name)
}

// Not in parallel: it takes every template of the cluster away from the others.
func TestADeletedCRDTakesNoTemplateOutOfForce(t *testing.T) {
	m := served(t, sidecarSpec)
	n := newNamespace(t, asking(m.name), nil)
	injects(t, n, m.name)
	definition, file := "sidecartemplates.pillion.dev", inFile(t, "template.yaml", m.yaml())
	// Deletion goes past the guard, though a namespace names the template: API servers ask no
	// webhook about objects that go with their CRD.
	must(t, "", "kubectl", "delete", "crd", definition, "--timeout=60s")
	tried := 0
	allInjected := func(when string) {
		t.Helper()
		for until := time.Now().Add(time.Second); time.Now().Before(until); tried++ {
			pod, err := n.preview(t, newPod("web", nil))
			if err != nil || sidecar(pod, m.name) == nil {
				t.Fatalf("pod %d, %s: %v", tried, when, err)
			}
		}
	}
	// Check says what is so, and its remedy takes nothing away while it is pasted.
	var remedy string
	defer func() {
		_, _, _ = run(t, "", "helm", "rollback", ground.Release, "-n", ground.Namespace)
		_, _, _ = run(t, "", "kubectl", "apply", "-f", file)
	}()
	eventually(t, soon, func() error {
		c := checking(t)
		result, found := c.find("crds", definition)
		if result != "failed" || len(found) != 1 || !strings.Contains(found[0].Message, "Restart no replica before") {
			return fmt.Errorf("crds is %s: %+v", result, found)
		}
		remedy = found[0].Remedy
		if result, found := c.find("template-names", ""); result != "ok" {
			return fmt.Errorf("template-names is %s: %+v", result, found)
		}
		return nil
	})
	allInjected("after the CRD was deleted")
	does(t, remedy)
	allInjected("with the CRD back")
	eventually(t, soon, func() error {
		if result, found := checking(t).find("templates", "are in force, and their objects or files are gone"); result != "warning" || len(found) != 1 || found[0].Remedy != "kubectl apply -f SIDECARTEMPLATES" {
			return fmt.Errorf("templates is %s: %+v", result, found)
		}
		return nil
	})
	eventually(t, soon, func() error { // an API server serves a new definition after a moment
		_, stderr, err := run(t, "", "kubectl", "apply", "-f", file)
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		return nil
	})
	eventually(t, soon, func() error {
		if object := m.object(t); object.Status.Hash == "" {
			return fmt.Errorf("with the CRD back, the status is %s", pretty(object.Status))
		}
		return nil
	})
	allInjected("with the template back")
	soundly(t)
}
