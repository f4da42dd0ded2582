package ground

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// programs are what one module of this checkout is there to build.
type programs struct {
	title    string
	dir      string   // of the module, below e2e
	versions string   // the module path whose version names the build
	packages []string // the last element of each is the name of its binary
	tags     string   // of the build
	// variables are what the project's own build links in, from the versions that go.mod
	// requires: a build from modules has none of it, and charts ask for a cluster's version.
	variables func(required map[string]string) []string
	cold      string // roughly how long it takes with an empty build cache
}

// module is the module of a version below a folder of e2e, such as "kubernetes/v1.37".
func module(folder, version string) string { return folder + "/v" + version }

// etcdPrograms is the one etcd for every version of Kubernetes.
func etcdPrograms() programs {
	return programs{
		title:     "etcd",
		dir:       "kubernetes/etcd",
		versions:  "go.etcd.io/etcd/server/v3",
		packages:  []string{"."},
		variables: func(map[string]string) []string { return nil },
		cold:      "1 minute",
	}
}

func kubernetesModule(version string) programs {
	return programs{
		dir:      module("kubernetes", version),
		versions: "k8s.io/kubernetes",
		variables: func(required map[string]string) []string {
			const pkg = "k8s.io/component-base/version."
			version := required["k8s.io/kubernetes"]
			major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
			return []string{pkg + "gitVersion=" + version, pkg + "gitMajor=" + major, pkg + "gitMinor=" + minor, pkg + "gitTreeState=clean"}
		},
	}
}

// controlPlanePrograms are those that every ground runs.
func controlPlanePrograms(version string) programs {
	p := kubernetesModule(version)
	p.title, p.cold = "Kubernetes", "10 minutes"
	p.packages = []string{
		"k8s.io/kubernetes/cmd/kube-apiserver",
		"k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kubectl",
	}
	return p
}

// nodePrograms are those that only a cluster with nodes needs.
func nodePrograms(version string) programs {
	p := kubernetesModule(version)
	p.title, p.cold = "Kubernetes-node", "2 minutes"
	p.packages = []string{
		"k8s.io/kubernetes/cmd/kube-scheduler",
		"k8s.io/kubernetes/cmd/kubelet",
		"k8s.io/kubernetes/cmd/kube-proxy",
	}
	return p
}

// helmPrograms is the helm of a major version.
func helmPrograms(major string) programs {
	path := "helm.sh/helm/v" + major
	return programs{
		title:    "Helm",
		dir:      module("helm", major),
		versions: path,
		packages: []string{path + "/cmd/helm"},
		variables: func(required map[string]string) []string {
			// client-go v0.N belongs to Kubernetes 1.N.
			_, minor, _ := strings.Cut(semver.MajorMinor(required["k8s.io/client-go"]), ".")
			variables := []string{path + "/internal/version.version=" + required[path]}
			if major == "3" { // later ones read what they were built with
				for _, v := range []string{"pkg/lint/rules.k8sVersion", "pkg/chartutil.k8sVersion"} {
					variables = append(variables, path+"/"+v+"Major=1", path+"/"+v+"Minor="+minor)
				}
			}
			return variables
		},
		cold: "3 minutes",
	}
}

// progressEvery is how often a long build says that it is still at work.
const progressEvery = 30 * time.Second

// BuildPrograms builds what the end-to-end tests run on a ground with the options, unless it is
// built: the ground's programs, and of a control plane cert-manager and Prometheus, which it is
// tested with.
func BuildPrograms(ctx context.Context, c Checkout, o Options, out io.Writer) error {
	kind := cmp.Or(o.Kind, Kinds()[0])
	programs := o.controlPlane
	if kind == KindNode {
		programs = o.node
	}
	builds, err := programs()
	if err != nil {
		return err
	}
	if kind != KindNode {
		builds = append(builds, certManagerPrograms, prometheusPrograms)
	}
	_, err = build(ctx, c, builds, out)
	return err
}

// build makes programs from this checkout's modules, unless an earlier call has made them
// from the same sources, and returns the folder of each.
//
// They appear whole or not at all, and several callers may build at the same time.
// What is done, and for how long, is written to out.
func build(ctx context.Context, c Checkout, builds []programs, out io.Writer) ([]string, error) {
	var dirs []string
	for _, p := range builds {
		dir, err := p.build(ctx, c, out)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", p.title, err)
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func (p programs) build(ctx context.Context, c Checkout, out io.Writer) (string, error) {
	source := c.Path("e2e", filepath.FromSlash(p.dir))
	required, err := requirements(source)
	if err != nil {
		return "", err
	}
	version, args := required[p.versions], p.arguments(required)
	key, err := p.key(source, args)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.cache("bin"), 0o755); err != nil {
		return "", err
	}
	dir := c.cache("bin", strings.ToLower(p.title)+"-"+version+"-"+key)
	if present(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, c.cache("bin", ".lock"), func() {
		fmt.Fprintf(out, "waiting for another build in %s\n", c.cache("bin"))
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if present(dir) {
		return dir, nil
	}
	return dir, p.compile(ctx, source, dir, version, args, out)
}

// compile builds into a folder beside dir, and renames it to dir when all is there.
func (p programs) compile(ctx context.Context, source, dir, version string, args []string, out io.Writer) error {
	partial, err := os.MkdirTemp(filepath.Dir(dir), ".partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	fmt.Fprintf(out, "building %s %s (about %s on two cores when the build cache is empty)\n", p.title, version, p.cold)
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-v"}, args...), append([]string{"-o", partial + "/"}, p.packages...)...)...)
	cmd.Dir = source
	// With more garbage than usual, up to a bound, compiling takes a tenth less.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=400", "GOMEMLIMIT=2GiB")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := runWithProgress(cmd, began, out); err != nil {
		return err
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "built %s %s in %s\n", p.title, version, time.Since(began).Round(time.Second))
	return nil
}

// runWithProgress runs a `go build -v`, which names each package that it compiles, and
// keeps what else it says for the error.
func runWithProgress(cmd *exec.Cmd, began time.Time, out io.Writer) error {
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var downloaded, compiled atomic.Int64
	var said []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "go: downloading "):
				downloaded.Add(1)
			case !strings.ContainsAny(line, " :"):
				compiled.Add(1)
			default:
				said = append(said, line)
			}
		}
	}()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			fmt.Fprintf(out, "  %s: %d modules downloaded, %d packages compiled\n",
				time.Since(began).Round(time.Second), downloaded.Load(), compiled.Load())
			continue
		case <-read:
		}
		break
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", cmd.Dir, err, strings.Join(said[max(0, len(said)-30):], "\n"))
	}
	return nil
}

// requirements are the versions that the module in source requires, by module path.
func requirements(source string) (map[string]string, error) {
	path := filepath.Join(source, "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.ParseLax(path, data, nil)
	if err != nil {
		return nil, err
	}
	required := map[string]string{}
	for _, r := range mod.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	return required, nil
}

// arguments are the build's flags.
func (p programs) arguments(required map[string]string) []string {
	ldflags := "-s -w"
	for _, variable := range p.variables(required) {
		ldflags += " -X " + variable
	}
	args := []string{"-trimpath", "-ldflags=" + ldflags}
	if p.tags != "" {
		args = append(args, "-tags="+p.tags)
	}
	return args
}

// key tells builds from different sources, flags or toolchains apart.
func (p programs) key(source string, args []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, args, p.packages)
	err := filepath.WalkDir(source, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		fmt.Fprintf(sum, "%s %x\n", filepath.ToSlash(name), sha256.Sum256(data))
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:8], nil
}

func present(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}
