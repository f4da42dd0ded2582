package ground

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"golang.org/x/sync/errgroup"
)

// programs are what one module of this checkout is there to build.
type programs struct {
	title    string
	dir      string   // of the module, below e2e
	versions string   // the module path whose version names the build
	packages []string // the last element of each is the name of its binary
	tags     string   // of the build
	// variables are what the project's own build links in, from the versions that go.mod
	// requires: a build from modules has none of it, and charts ask for a cluster's version. Nil: nothing.
	variables func(required map[string]string) []string
	measured  bool // all of it is optimised
}

// module is the module of a version below a folder of e2e, such as "kubernetes/v1.37".
func module(folder, version string) string { return folder + "/v" + version }

// etcdPrograms is the one etcd for every version of Kubernetes.
var etcdPrograms = programs{
	title:    "etcd",
	dir:      "kubernetes/etcd",
	versions: "go.etcd.io/etcd/server/v3",
	packages: []string{"."},
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
	p.title = "Kubernetes"
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
	p.title = "Kubernetes-node"
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
	}
}

// buildFlags are those that the Makefile exports to all that is built and tested here, so that
// product, tests and programs share each package that they compile. Nothing here is debugged by
// line: without DWARF, compiling takes a fifth less.
const buildFlags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"

// quick are packages that neither the product nor its tests import. Without inlining, they compile a
// sixth sooner, and run slower: programs for measuring are built with it.
var quick = []string{
	"go.etcd.io/...", "google.golang.org/grpc/...", "k8s.io/apiextensions-apiserver/pkg/apiserver/...", "k8s.io/client-go/informers/...",
	"k8s.io/kube-aggregator/...", "k8s.io/kubectl/...", "k8s.io/kubernetes/...",
}

// keptFor is how long programs stay in the user's cache that nobody has used.
const keptFor = 30 * 24 * time.Hour

// BuildPrograms builds what a ground with the options runs, unless it is built, and of
// others, such as "cert-manager" and "prometheus", what tests on it run.
func BuildPrograms(ctx context.Context, c Checkout, o Options, others []string, out io.Writer) error {
	o.Kind = cmp.Or(o.Kind, Kinds()[0])
	o, err := o.complete()
	if err != nil {
		return err
	}
	builds := o.programs()
	for _, name := range others {
		other, ok := otherPrograms[name]
		if !ok {
			return fmt.Errorf("no programs are called %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(otherPrograms)), ", "))
		}
		builds = append(builds, other)
	}
	_, err = build(ctx, c, builds, out)
	return err
}

// BuildHelm builds the Helm that o chooses, unless it is built, and returns its path. What is done is
// written to out.
func BuildHelm(ctx context.Context, c Checkout, o Options, out io.Writer) (string, error) {
	major, err := choose("HELM", o.Helm, helmVersions)
	if err != nil {
		return "", err
	}
	dirs, err := build(ctx, c, []programs{helmPrograms(major)}, out)
	if err != nil {
		return "", err
	}
	return filepath.Join(dirs[0], "helm"), nil
}

// otherPrograms are those that only some tests run.
var otherPrograms = map[string]programs{"cert-manager": certManagerPrograms, "prometheus": prometheusPrograms}

// build makes programs from this checkout's modules, unless an earlier call has made them
// from the same sources, and returns the folder of each.
//
// They appear whole or not at all, and several callers may build at the same time. Two of them
// are made at once, since linking keeps one core busy only.
// What is done, and how far it is, is written to out.
func build(ctx context.Context, c Checkout, builds []programs, out io.Writer) ([]string, error) {
	out = &lines{out: out}
	bin, err := c.programs()
	if err != nil {
		return nil, err
	}
	dirs := make([]string, len(builds))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for i, p := range builds {
		group.Go(func() (err error) {
			if dirs[i], err = p.build(ctx, c, bin, out); err != nil {
				return fmt.Errorf("building %s: %w", p.title, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return dirs, removeUnused(bin, time.Now().Add(-keptFor))
}

// lines has several writers write whole lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// programs is the folder of what is built: in the user's cache, so that another clone has it
// too, or in this checkout where a user has no cache.
func (c Checkout) programs() (string, error) {
	dir := c.cache("programs")
	if user, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(user, "pillion", "programs")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// removeUnused removes the programs that nobody has used since then.
func removeUnused(bin string, then time.Time) error {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) || err == nil && (!e.IsDir() || info.ModTime().After(then)) {
			continue
		}
		if err = errors.Join(err, os.RemoveAll(filepath.Join(bin, e.Name()))); err != nil {
			return err
		}
	}
	return nil
}

func (p programs) build(ctx context.Context, c Checkout, bin string, out io.Writer) (string, error) {
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
	name := strings.ToLower(p.title) + "-" + version + "-" + key
	dir := filepath.Join(bin, name)
	if used(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, filepath.Join(bin, "."+name+".lock"), func() {
		fmt.Fprintf(out, "waiting for another build of %s %s\n", p.title, version)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(dir) {
		return dir, nil
	}
	return dir, p.compile(ctx, c, source, dir, p.title+" "+version, args, out)
}

// used tells whether programs are there, and notes that somebody wants them.
func used(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// compile builds into a folder beside dir, and renames it to dir when all is there.
func (p programs) compile(ctx context.Context, c Checkout, source, dir, what string, args []string, out io.Writer) error {
	partial, err := os.MkdirTemp(filepath.Dir(dir), ".partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	began := time.Now()
	fmt.Fprintf(out, "%s: looking what is to be compiled, downloading what is not there\n", what)
	cmd := exec.CommandContext(ctx, c.Path(".ci", "compile"), slices.Concat([]string{what, partial + "/"}, args, p.packages)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = source, out, out
	// With more garbage than usual, up to a bound, compiling takes a tenth less.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+buildFlags, "GOGC=400", "GOMEMLIMIT=2GiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling in %s: %w", source, err)
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: built in %s\n", what, time.Since(began).Round(time.Second))
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
	if p.variables != nil {
		for _, variable := range p.variables(required) {
			ldflags += " -X " + variable
		}
	}
	args := []string{"-ldflags=" + ldflags}
	if !p.measured {
		for _, packages := range quick {
			args = append(args, "-gcflags="+packages+"=-dwarf=false -l")
		}
	}
	if p.tags != "" {
		args = append(args, "-tags="+p.tags)
	}
	return args
}

// key tells builds from different sources, flags or toolchains apart.
func (p programs) key(source string, args []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags, args, p.packages)
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
