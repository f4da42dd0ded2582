package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	acts := []func() error{s.annotate, s.override, s.optOut, s.explain}
	if g.Kind() == ground.KindNode {
		acts = []func() error{s.annotate, s.running, s.job, s.override, s.optOut, s.explain, s.restart}
	}
	for _, act := range acts {
		if err := act(); err != nil {
			return err
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

func (s stage) install() error {
	heading("The cluster admin installs Pillion")
	// As in ground.InstallArgs, written as a person would.
	command := "helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'"
	if s.g.Kind() == ground.KindNode {
		command += " --wait"
	}
	if _, err := s.do(command); err != nil {
		return err
	}
	if err := s.g.Rollout(s.ctx, ground.Namespace); err != nil || s.g.Kind() != ground.KindNode {
		return err
	}
	return s.expect("kubectl -n pillion-system get pods", "pillion 1/1 Running")
}

func (s stage) annotate() error {
	heading("A team annotates its namespace, and creates a pod: it gets the sidecar")
	for _, command := range []string{
		"kubectl create namespace shop",
		"kubectl annotate namespace shop pillion.dev/inject=fluent-bit",
	} {
		if _, err := s.do(command); err != nil {
			return err
		}
	}
	if err := s.serviceAccount(); err != nil {
		return err
	}
	if _, err := s.do("kubectl -n shop run web --image=nginx"); err != nil {
		return err
	}
	return s.expect(table, "web fluent-bit")
}

// running needs a node, as job and restart do. Its images are stand-ins: see e2e/registry.
func (s stage) running() error {
	heading("It runs: the sidecar was up before the app, the app reaches it, its logs are there")
	if _, err := s.do("kubectl -n shop wait --for=condition=Ready pod/web --timeout=60s"); err != nil {
		return err
	}
	if err := s.expect("kubectl -n shop get pod web", "web 2/2 Running"); err != nil {
		return err
	}
	if err := s.expect("kubectl -n shop exec web -c web -- /standin get http://127.0.0.1:2020/api/v1/health", "fluent-bit answers"); err != nil {
		return err
	}
	return s.expect("kubectl -n shop logs web -c fluent-bit", "standing in for fluent-bit")
}

func (s stage) job() error {
	heading("A Job with a sidecar completes")
	for _, command := range []string{
		"kubectl -n shop create job report --image=report -- /standin get http://127.0.0.1:2020/",
		"kubectl -n shop wait --for=condition=Complete job/report --timeout=60s",
	} {
		if _, err := s.do(command); err != nil {
			return err
		}
	}
	return s.expect("kubectl -n shop get pods -l job-name=report", "Completed")
}

func (s stage) override() error {
	heading("Another pod overrides a parameter")
	if _, err := s.do("kubectl -n shop run verbose --image=nginx --annotations=fluent-bit.pillion.dev/log-level=debug"); err != nil {
		return err
	}
	return s.expect(table, "verbose fluent-bit debug")
}

func (s stage) optOut() error {
	heading("A third one opts out")
	if _, err := s.do("kubectl -n shop run alone --image=nginx --annotations=pillion.dev/inject=false"); err != nil {
		return err
	}
	return s.expect(table, "alone <none>")
}

func (s stage) explain() error {
	heading("Why: the same functions, with the reader's own rights")
	for _, pod := range []struct{ name, why string }{{"web", "Injected"}, {"verbose", "debug"}, {"alone", "PodOptedOut"}} {
		if err := s.expect("pillion explain -n shop pod/"+pod.name, pod.why); err != nil {
			return err
		}
	}
	return nil
}

func (s stage) restart() error {
	heading("Pillion is updated while pods are created (by dry run): none is refused, none lacks its sidecar")
	for _, command := range []string{
		"kubectl label namespace shop pillion.dev/injection=enforced --overwrite",
		"kubectl -n pillion-system rollout restart deployment/pillion",
		`kubectl -n pillion-system rollout status deployment/pillion --timeout=2m >/dev/null &
  while kill -0 $! 2>/dev/null; do
    kubectl -n shop run during --image=nginx --dry-run=server -o jsonpath='{.spec.initContainers[*].name}{"\n"}' >> $TMPDIR/during || exit 1
  done`,
	} {
		if _, err := s.do(command); err != nil {
			return err
		}
	}
	out, err := s.do("sort $TMPDIR/during | uniq -c")
	if err != nil {
		return err
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 1 || !strings.HasSuffix(lines[0], " fluent-bit") {
		return fmt.Errorf("not every pod that was created during the update has the sidecar: %q", lines)
	}
	return nil
}

// serviceAccount waits for what the controller manager puts into a new namespace.
func (s stage) serviceAccount() error {
	_, err := ground.Run(s.ctx, s.g, "kubectl", "-n", "shop", "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	return err
}

// do prints a command and runs it in a shell, as somebody with the ground's KUBECONFIG
// and PATH would.
func (s stage) do(command string) (string, error) {
	fmt.Printf("$ %s\n", command)
	cmd := exec.CommandContext(s.ctx, "sh", "-c", command)
	cmd.Dir = s.dir
	cmd.Env = s.g.Env()
	out, err := cmd.CombinedOutput()
	os.Stdout.Write(out)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return string(out), nil
}

// expect is do, and an error if not all the words of want stand on one line of the output.
func (s stage) expect(command, want string) error {
	out, err := s.do(command)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if containsAll(line, strings.Fields(want)) {
			return nil
		}
	}
	return fmt.Errorf("%s: no line of the output has all of: %s", command, want)
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
