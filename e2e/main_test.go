package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// What all tests share. TestMain sets it.
var (
	checkout ground.Checkout
	shared   ground.Ground
	config   *rest.Config         // an admin's, without client-side rate limits
	client   kubernetes.Interface // of config
)

// mirrored stands for an image in an installer's own registry.
const mirrored = "registry.example.com/mirrored/netshoot:1"

// installed are the values that the chart is installed with: the whole library, and
// another default for one image of it. One replica: what a test reads of it, no
// neighbour has done. It looks often at the pods, so that a test of what it says is short. It enforces
// what asks, so that no test has to wait for a label of its own.
var installed = []string{
	"--set", "library={" + strings.Join(charts.Names(), ",") + "}",
	"--set", "parameterDefaults.debug-toolbox.image=" + mirrored,
	"--set", "replicas=1",
	"--set", "coverage.every=10s",
	"--set", "enforcement=Asked",
}

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := runOnGround(ctx, m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the ground of the end-to-end tests:", err)
		code = 1
	}
	os.Exit(code)
}

func runOnGround(ctx context.Context, m *testing.M) (code int, err error) {
	if checkout, err = ground.FindCheckout("."); err != nil {
		return 1, err
	}
	for _, program := range []string{checkout.Pillion(), checkout.Webhook()} {
		if _, err := os.Stat(program); err != nil {
			return 1, fmt.Errorf("%w; `make build` builds it", err)
		}
	}
	options := ground.FromEnvironment()
	options.Balanced = options.APIServers > 1
	g, err := ground.Start(ctx, checkout, options, os.Stderr)
	if err != nil {
		return 1, err
	}
	shared = g
	var skip []string
	if also := flag.Lookup("test.skip").Value.String(); also != "" {
		skip = append(skip, also)
	}
	if g.Kind() != ground.KindNode {
		skip = append(skip, "^"+onANode)
	} else if flag.Lookup("test.run").Value.String() == "" { // all others are for a control plane
		if err := flag.Set("test.run", "^"+onANode); err != nil {
			return 1, err
		}
	}
	if options.APIServers < 2 {
		skip = append(skip, "^"+withSeveralAPIServers)
	}
	if err := flag.Set("test.skip", strings.Join(skip, "|")); err != nil {
		return 1, err
	}
	defer func() {
		if closeErr := g.Close(); err == nil {
			err = closeErr
		}
	}()
	// An interrupt ends the tests where they are; what they run on is removed first.
	defer context.AfterFunc(ctx, func() {
		_ = g.Close()
		os.Exit(1)
	})()
	if config, client, err = measure.Connect(g.Kubeconfig()); err != nil {
		return 1, err
	}
	if err := ground.Install(ctx, g, checkout, installed...); err != nil {
		return 1, fmt.Errorf("installing Pillion: %w", err)
	}
	code = m.Run()
	if code != 0 {
		showLogs(g)
	}
	return code, nil
}

// showLogs prints how Pillion's logs end, since they are removed with the ground.
func showLogs(g ground.Ground) {
	for _, r := range g.Replicas(ground.Namespace) {
		log, err := os.ReadFile(r.Log)
		fmt.Fprintf(os.Stderr, "the end of the log of %s (%v):\n%s\n", r.Name, err, log[max(0, len(log)-8000):])
	}
}
