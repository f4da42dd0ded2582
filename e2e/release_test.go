package e2e

import (
	"archive/tar"
	"archive/zip"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// A release is the folder dist, as `make release` writes it.
type release struct {
	dir    string
	number string // the version without its v
}

func theRelease(t *testing.T) release {
	t.Helper()
	image, err := checkout.Image()
	expectNoError(t, err)
	r := release{checkout.Path("dist"), image.Tag}
	if _, err := os.Stat(r.path("checksums.txt")); err != nil {
		t.Fatalf("%v; `make release VERSION=v%s` makes it", err, r.number)
	}
	return r
}

func (r release) path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

// push copies the release's image and chart to below a path of a registry, as the workflow of a
// release does. It returns the digest of the image.
func (r release) push(t *testing.T, path string) string {
	t.Helper()
	oras := checkout.Path(".cache", "tools", "oras")
	for layout, repository := range map[string]string{"pillion-image": "/pillion:", "pillion-chart": "/charts/pillion:"} {
		sh(t, oras, "cp", "--from-oci-layout", r.path(layout)+":"+r.number, "--to-plain-http", path+repository+r.number)
	}
	return strings.TrimSpace(sh(t, oras, "resolve", "--plain-http", path+"/pillion:"+r.number))
}

// sh runs a program of this machine in the release's folder, and returns what it wrote.
func sh(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = checkout.Path("dist")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A team and an admin have nothing but a release: the program of its archive, its chart from a
// registry, or its manifests, as docs/how-to/install-from-dist.md has them.
func TestAReleaseIsAllThatAnInstallationNeeds(t *testing.T) {
	r, version := theRelease(t), "pillion v"+theRelease(t).number+" "
	sh(t, "sha256sum", "--check", "--quiet", "--strict", "checksums.txt")

	// Each archive has its program, for its platform.
	unpacked := t.TempDir()
	own := "pillion_" + r.number + "_" + runtime.GOOS + "_" + runtime.GOARCH
	sh(t, "tar", "-xzf", r.path(own+".tar.gz"), "-C", unpacked)
	cli := filepath.Join(unpacked, "pillion")
	if said := sh(t, cli, "version"); !strings.HasPrefix(said, version) {
		t.Errorf("the program of the archive says %q, want %q", said, version)
	}
	sums, err := os.ReadFile(r.path("checksums.txt"))
	expectNoError(t, err)
	r.checkPlugin(t, string(sums))

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := server.Listener.Addr().String()
	r.push(t, host+"/pillion-dev")
	r.checkImages(t, host)

	g := newOwnGround(t, ground.FromEnvironment())
	g.UsePillion(r.server(t, host))
	g.run(t, "helm", "install", ground.Release, "oci://"+host+"/pillion-dev/charts/pillion", "--version="+r.number, "--plain-http",
		"-n", ground.Namespace, "--create-namespace", "--set", "library={fluent-bit}", "--set", "replicas=1")
	g.usesRelease(t, cli, "fluent-bit")
	g.run(t, "helm", "uninstall", ground.Release, "-n", ground.Namespace)
	g.run(t, "kubectl", "delete", "crd,namespace", "sidecartemplates.pillion.dev", "namespacedsidecartemplates.pillion.dev", ground.Namespace, "--ignore-not-found")
	expectNoError(t, g.Rollout(t.Context(), ground.Namespace))

	apply := []string{"apply", "--cache-dir=" + t.TempDir(), "-f"} // as in a fresh HOME: kubectl knows no kinds yet
	g.run(t, "kubectl", append(apply, r.path("pillion-crds.yaml"), "--server-side")...)
	g.run(t, "kubectl", append(apply, r.path("pillion-install.yaml"))...)
	template := filepath.Join(t.TempDir(), "fluent-bit.yaml")
	expectNoError(t, os.WriteFile(template, []byte(sh(t, cli, "library", "show", "fluent-bit")), 0o600))
	expectNoError(t, g.Scale(t.Context(), ground.Namespace, 1))
	g.run(t, "kubectl", append(apply, template)...)
	g.usesRelease(t, cli, "fluent-bit")
}

func TestOnANodeTheImageOfTheReleaseRunsFromARegistry(t *testing.T) {
	r, registry := theRelease(t), shared.(*ground.Node).Registry()
	digest := r.push(t, registry+"/released")
	const home = ground.Namespace
	instead(t)
	must(t, "", "helm", append([]string{"install", ground.Release, "oci://" + registry + "/released/charts/pillion", "--version=" + r.number, "--plain-http", "-n", home, "--wait"}, flags([]string{
		"image.repository=ghcr.io/released/pillion", "library={fluent-bit}", "replicas=1",
	})...)...)
	pods, err := client.CoreV1().Pods(home).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pillion"})
	if err != nil || len(pods.Items) != 1 || !strings.HasSuffix(pods.Items[0].Status.ContainerStatuses[0].ImageID, "@"+digest) {
		t.Fatalf("Pillion runs in %s (%v), want the image %s", pretty(pods.Items), err, digest)
	}
	n := newNamespace(t, asking("fluent-bit"), nil)
	n.mustCreate(t, newRunningPod("web", nil))
	if pod := n.waitFor(t, "web", ready); sidecar(pod, "fluent-bit") == nil {
		t.Errorf("the pod has the containers %s", containerNames(pod))
	}
}

// usesRelease waits until Pillion runs, and has a pod get the template's sidecar and the program explain it.
func (g *certsGround) usesRelease(t *testing.T, cli, template string) {
	t.Helper()
	expectNoError(t, g.Rollout(t.Context(), ground.Namespace))
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("shop"), Annotations: asking(template)}}
	create(t, g.client.CoreV1().Namespaces(), n)
	eventually(t, soon, func() error {
		return errorOf(g.client.CoreV1().ServiceAccounts(n.Name).Get(t.Context(), "default", metav1.GetOptions{}))
	})
	g.run(t, "kubectl", "-n", n.Name, "run", "web", "--image=nginx")
	explain := exec.CommandContext(t.Context(), cli, "explain", "-n", n.Name, "pod/web")
	explain.Env = g.Env()
	said, err := explain.CombinedOutput()
	pod, getErr := g.client.CoreV1().Pods(n.Name).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || getErr != nil || sidecar(pod, template) == nil || !strings.Contains(string(said), "Injected") {
		t.Errorf("the pod has the containers %s (%v), and explain says (%v)\n%s", containerNames(pod), getErr, err, said)
	}
}

// checkPlugin holds the manifest for krew to the archives.
func (r release) checkPlugin(t *testing.T, sums string) {
	t.Helper()
	var plugin struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         metav1.LabelSelector
				URI, SHA256, Bin string
			}
		}
	}
	text, err := os.ReadFile(r.path("krew", "pillion.yaml"))
	expectNoError(t, err)
	expectNoError(t, yaml.Unmarshal(text, &plugin))
	if plugin.Metadata.Name != "pillion" || plugin.Spec.Version != "v"+r.number || len(plugin.Spec.Platforms) != 6 {
		t.Errorf("the plugin is %+v", plugin)
	}
	for _, p := range plugin.Spec.Platforms {
		archive := p.URI[strings.LastIndex(p.URI, "/")+1:]
		content := r.list(t, archive)
		for _, file := range []string{p.Bin, "README.md", "LICENSE", "licenses/go/LICENSE", "completions/pillion.bash", "completions/_pillion", "completions/pillion.fish", "completions/pillion.ps1"} {
			if !slices.Contains(content, file) {
				t.Errorf("%s lacks %s: %s", archive, file, content)
			}
		}
		name := "pillion_" + r.number + "_" + p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"]
		if !strings.HasPrefix(archive, name+".") || !strings.Contains(sums, p.SHA256+"  "+archive+"\n") {
			t.Errorf("for %v the plugin is %s with the checksum %s, and the release has\n%s", p.Selector.MatchLabels, archive, p.SHA256, sums)
		}
	}
}

// list returns the names of the files in an archive.
func (r release) list(t *testing.T, archive string) []string {
	t.Helper()
	if !strings.HasSuffix(archive, ".zip") {
		return strings.Split(sh(t, "tar", "-tzf", archive), "\n")
	}
	files, err := zip.OpenReader(r.path(archive))
	expectNoError(t, err)
	defer files.Close()
	var names []string
	for _, f := range files.File {
		names = append(names, f.Name)
	}
	return names
}

// server returns the program of the image for this machine, unpacked.
func (r release) server(t *testing.T, host string) string {
	t.Helper()
	tag, err := name.NewTag(host+"/pillion-dev/pillion:"+r.number, name.Insecure)
	expectNoError(t, err)
	image, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	expectNoError(t, err)
	config, err := image.ConfigFile()
	expectNoError(t, err)
	layers := mutate.Extract(image)
	defer layers.Close()
	for files := tar.NewReader(layers); ; {
		file, err := files.Next()
		expectNoError(t, err)
		if "/"+file.Name != config.Config.Entrypoint[0] {
			continue
		}
		program := filepath.Join(t.TempDir(), filepath.Base(file.Name))
		content, err := io.ReadAll(files)
		expectNoError(t, err)
		expectNoError(t, os.WriteFile(program, content, 0o700))
		return program
	}
}

// checkImages holds the registry's image to what it says of itself, for each platform.
func (r release) checkImages(t *testing.T, host string) {
	t.Helper()
	tag, err := name.NewTag(host+"/pillion-dev/pillion:"+r.number, name.Insecure)
	expectNoError(t, err)
	index, err := remote.Index(tag)
	expectNoError(t, err)
	manifest, err := index.IndexManifest()
	expectNoError(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		expectNoError(t, err)
		config, err := image.ConfigFile()
		expectNoError(t, err)
		if version := config.Config.Labels["org.opencontainers.image.version"]; config.Platform().String() != m.Platform.String() || version != r.number {
			t.Errorf("the image for %s is of version %q for %s", m.Platform, version, config.Platform())
		}
	}
	if strings.Join(platforms, " ") != "linux/amd64 linux/arm64" {
		t.Errorf("the image is for %q", platforms)
	}
}
