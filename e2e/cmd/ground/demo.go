package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// demo shows on a ground of its own what a cluster admin, a team and a pod's author do,
// and checks what comes of it. The ground is removed at the end, whatever happens.
func demo(ctx context.Context, checkout ground.Checkout) (err error) {
	began := time.Now()
	heading("A Kubernetes on this machine")
	g, err := ground.Start(ctx, checkout, ground.FromEnvironment(), os.Stdout)
	if err != nil {
		return err
	}
	defer func() {
		removal := time.Now()
		err = errors.Join(err, g.Close())
		fmt.Printf("\nremoved in %.1f s; all of it took %.1f s\n", time.Since(removal).Seconds(), time.Since(began).Seconds())
	}()
	up := time.Now()
	s := stage{ctx: ctx, g: g, dir: string(checkout)}
	if err := s.install(); err != nil {
		return err
	}
	fmt.Printf("Pillion ready, %.1f s after the start of helm\n", time.Since(up).Seconds())
	for _, a := range acts {
		if a.onNode && g.Kind() != ground.KindNode {
			continue
		}
		heading(a.heading)
		for _, step := range a.steps {
			if err := s.expect(step); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\nfrom the running control plane to here: %.1f s\n", time.Since(up).Seconds())
	return nil
}

func heading(text string) { fmt.Printf("\n== %s\n", text) }

// stage is where the demo's commands run.
type stage struct {
	ctx context.Context
	g   ground.Ground
	dir string
}

// table shows of each pod what the demo is about.
const table = `kubectl -n shop get pods -o custom-columns='POD:.metadata.name,CONTAINERS:.spec.containers[*].name,SIDECARS:.spec.initContainers[*].name,LOG LEVEL:.spec.initContainers[*].env[?(@.name=="FLB_LOG_LEVEL")].value'`

// An act is a part of the demo. Some need a node, whose images are stand-ins: see e2e/registry.
type act struct {
	heading string
	onNode  bool
	steps   []step
}

// A step is a command for a shell. A line of its output has all the words of want; alone, it is
// the only one.
type step struct {
	command, want string
	alone         bool
}

var acts = []act{
	{"A team annotates its namespace, and creates a pod: it gets the sidecar", false, []step{
		{command: makeNamespace + "shop"},
		{command: "kubectl annotate namespace shop pillion.dev/inject=fluent-bit"},
		{command: "kubectl -n shop run web --image=nginx"},
		{command: table, want: "web fluent-bit"},
	}},
	{"It runs: the sidecar was up before the app, the app reaches it, its logs are there", true, []step{
		{command: "kubectl -n shop wait --for=condition=Ready pod/web --timeout=60s"},
		{command: "kubectl -n shop get pod web", want: "web 2/2 Running"},
		{command: "kubectl -n shop exec web -c web -- /standin get http://127.0.0.1:2020/api/v1/health", want: "fluent-bit answers"},
		{command: "kubectl -n shop logs web -c fluent-bit", want: "standing in for fluent-bit"},
	}},
	{"A Job with a sidecar completes", true, []step{
		{command: "kubectl -n shop create job report --image=report -- /standin get http://127.0.0.1:2020/"},
		{command: "kubectl -n shop wait --for=condition=Complete job/report --timeout=60s"},
		{command: "kubectl -n shop get pods -l job-name=report", want: "Completed"},
	}},
	{"Another pod overrides a parameter", false, []step{
		{command: "kubectl -n shop run verbose --image=nginx --annotations=fluent-bit.pillion.dev/log-level=debug"},
		{command: table, want: "verbose fluent-bit debug"},
	}},
	{"A third one opts out", false, []step{
		{command: "kubectl -n shop run alone --image=nginx --annotations=pillion.dev/inject=false"},
		{command: table, want: "alone <none>"},
	}},
	{"Why: the same functions, with the reader's own rights", false, []step{
		{command: "pillion explain -n shop pod/web", want: "Injected"},
		{command: "pillion explain -n shop pod/verbose", want: "debug"},
		{command: "pillion explain -n shop pod/alone", want: "PodOptedOut"},
	}},
	{"Pillion is updated while pods are created (by dry run): none is refused, none lacks its sidecar", true, []step{
		{command: "kubectl label namespace shop pillion.dev/injection=enforced --overwrite"},
		{command: "kubectl -n pillion-system rollout restart deployment/pillion"},
		{command: `kubectl -n pillion-system rollout status deployment/pillion --timeout=2m >/dev/null &
  while kill -0 $! 2>/dev/null; do
    kubectl -n shop run during --image=nginx --dry-run=server -o jsonpath='{.spec.initContainers[*].name}{"\n"}' >> $TMPDIR/during || exit 1
  done`},
		{command: "sort $TMPDIR/during | uniq -c", want: "fluent-bit", alone: true},
	}},
}

func (s stage) install() error {
	heading("The cluster admin installs Pillion")
	// As in ground.InstallArgs, written as a person would.
	command := "helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'"
	if s.g.Kind() == ground.KindNode {
		command += " --wait"
	}
	if _, err := s.do(command); err != nil || s.g.Kind() != ground.KindNode {
		return err
	}
	return s.expect(step{command: "kubectl -n pillion-system get pods", want: "pillion 1/1 Running"})
}

// makeNamespace begins the command that makes a namespace, whose name follows.
const makeNamespace = "kubectl create namespace "

// do prints a command and runs it in a shell, as somebody with the ground's KUBECONFIG
// and PATH would. It waits for what is installed, and for what the controller manager puts into a
// new namespace.
func (s stage) do(command string) (string, error) {
	fmt.Printf("$ %s\n", command)
	cmd := exec.CommandContext(s.ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.g.Env()
	out, err := cmd.CombinedOutput()
	os.Stdout.Write(out)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", command, err)
	case strings.HasPrefix(command, "helm install"):
		err = s.g.Rollout(s.ctx, ground.Namespace)
	}
	if namespace, made := strings.CutPrefix(command, makeNamespace); made && err == nil {
		_, err = ground.Run(s.ctx, s.g, "kubectl", "-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	}
	return string(out), err
}

// expect is do, and an error if the output is not as the step wants it.
func (s stage) expect(step step) error {
	out, err := s.do(step.command)
	if err != nil {
		return err
	}
	lines := slices.Collect(strings.Lines(out))
	has := func(line string) bool {
		return !slices.ContainsFunc(strings.Fields(step.want), func(word string) bool { return !strings.Contains(line, word) })
	}
	if step.want != "" && !slices.ContainsFunc(lines, has) || step.alone && len(lines) != 1 {
		return fmt.Errorf("%s: no line of the output, or not the only one, has all of: %s", step.command, step.want)
	}
	return nil
}
