package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// versionSpec mounts an image volume where there is one, and else copies the image's files.
const versionSpec = `
inject:
  metadata:
    annotations: {example.com/minor: "${kubernetes.minor}", example.com/major: "${kubernetes.major}"}
  spec:
    initContainers:
    - {name: NAME, image: "registry.example.com/NAME:1", restartPolicy: Always, volumeMounts: [{name: NAME, mountPath: /agent, readOnly: true}]}
    - {$if: "kubernetes.minor < 35", $position: First, name: NAME-copy, image: "registry.example.com/agent:1", args: [copy, /to], volumeMounts: [{name: NAME, mountPath: /to}]}
    volumes:
    - {$if: "kubernetes.minor >= 35", name: NAME, image: {reference: "registry.example.com/agent:1"}}
    - {$if: "kubernetes.minor < 35", name: NAME, emptyDir: {}}
`

func TestATemplateUsesAnImageVolumeWhereTheServerHasOne(t *testing.T) {
	t.Parallel()
	server, err := client.Discovery().ServerVersion()
	expectNoError(t, err)
	name := served(t, versionSpec).name
	pod := newNamespace(t, asking(name), nil).mustCreate(t, newPod("web", nil))
	if got, want := pod.Annotations["example.com/major"]+"."+pod.Annotations["example.com/minor"], server.Major+"."+server.Minor; got != want {
		t.Errorf("expressions see Kubernetes %s, and the server is %s", got, want)
	}
	mounted := count(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == name && v.Image != nil && v.Image.Reference == "registry.example.com/agent:1"
	})
	if mounted != 1 || sidecar(pod, name+"-copy") != nil {
		t.Errorf("the pod has no image volume, or the copy: %s", pretty(pod.Spec))
	}
}

// kubectl runs the program under the name kubectl-pillion, and asks it for completions under
// another one: `make build` links both.
func TestPillionIsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	own := must(t, "", "pillion", "version")
	cmd := exec.CommandContext(t.Context(), shared.Tool("kubectl"), "pillion", "version")
	path := "PATH=" + filepath.Dir(checkout.Pillion()) + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = append(shared.Env(), path)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != own {
		t.Errorf("kubectl pillion version (%v) says %q, and pillion version %q", err, out, own)
	}
	n := newNamespace(t, nil, nil)
	for _, c := range []struct{ line, want string }{{"pillion ch", "check\t"}, {"pillion status ns/" + n.name, "ns/" + n.name + "\n"}} {
		cmd := exec.CommandContext(t.Context(), shared.Tool("kubectl"), append([]string{"__complete"}, strings.Fields(c.line)...)...)
		cmd.Env = append(shared.Env(), path)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("kubectl offers for %q (%v): %q, want %q", c.line, err, out, c.want)
		}
	}
}
