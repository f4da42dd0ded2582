package ground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of grounds.
const (
	KindControlPlane = "controlplane"
	KindNode         = "node"
)

// What can be asked for, the default first.
var (
	kubernetesVersions = []string{"1.37", "1.36", "1.35"}
	helmVersions       = []string{"3", "4"}
)

// Options choose a ground. The zero value is the default of each.
type Options struct {
	// Kind is KindNode or KindControlPlane. Default: a node where one can run, else a
	// control plane.
	Kind string
	// Kubernetes is the minor version, such as "1.37".
	Kubernetes string
	// Helm is the major version, such as "3", of the helm that Tool gives.
	Helm string

	// Measured has the programs optimised as for everybody. Without it they are built sooner.
	Measured bool
	// APIServers is how many kube-apiservers a control plane has on its one etcd, as one
	// of several machines would (default 1), and behind one address. Each sees a change a
	// moment after the one that wrote it. A node has one.
	APIServers int
	// Lag is how much later than the first one the other kube-apiservers learn what was
	// written: all that etcd says reaches them late.
	Lag time.Duration
	// Balanced has all replicas on a control plane answer behind the ClusterIP: each new
	// connection goes to the next ready one, as on a node. Without it the first replica
	// listens on the ClusterIP itself. ControlPlane.Replace needs it.
	Balanced bool
	// ProxySync is how long kube-proxy on a node gathers changes before it follows them
	// (default 100ms). Kubernetes' own default is a second.
	ProxySync time.Duration
}

// FromEnvironment are the options that GROUND, K8S, HELM and API_SERVERS ask for.
func FromEnvironment() Options {
	o := Options{Kind: os.Getenv("GROUND"), Kubernetes: os.Getenv("K8S"), Helm: os.Getenv("HELM")}
	if n := os.Getenv("API_SERVERS"); n != "" {
		var err error
		if o.APIServers, err = strconv.Atoi(n); err != nil {
			o.APIServers = -1 // refused when a ground starts
		}
	}
	return o
}

// complete are the options with the default of each that is not set, but the kind; or why there is no
// such ground.
func (o Options) complete() (Options, error) {
	var kubernetesErr, helmErr error
	o.Kubernetes, kubernetesErr = choose("K8S", o.Kubernetes, kubernetesVersions)
	o.Helm, helmErr = choose("HELM", o.Helm, helmVersions)
	if o.APIServers < 0 || o.APIServers > 9 || o.APIServers > 1 && o.Kind == KindNode {
		return o, errors.New("API_SERVERS: must be a number from 1 to 9, and needs GROUND=controlplane")
	}
	o.APIServers = max(1, o.APIServers)
	return o, errors.Join(kubernetesErr, helmErr)
}

// Kinds are the kinds of grounds that can run on this machine.
func Kinds() []string {
	if nodeCanRun() != nil {
		return []string{KindControlPlane}
	}
	return []string{KindNode, KindControlPlane}
}

// Start starts a ground: see StartNode and StartControlPlane.
func Start(ctx context.Context, c Checkout, o Options, out io.Writer) (Ground, error) {
	switch o.Kind {
	case KindNode:
		return start(StartNode(ctx, c, o, out))
	case KindControlPlane:
		return start(StartControlPlane(ctx, c, o, out))
	case "":
		o.Kind = KindNode
		if err := nodeCanRun(); err != nil {
			fmt.Fprintf(out, "no node ground here (%v): going on with a control plane, where pods are created and never run\n", err)
			o.Kind = KindControlPlane
		}
		return Start(ctx, c, o, out)
	}
	return nil, fmt.Errorf("GROUND=%s: unknown; there are %s and %s", o.Kind, KindNode, KindControlPlane)
}

// start keeps a nil pointer from becoming a Ground.
func start[G Ground](g G, err error) (Ground, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// programs are those that a ground with the options, which are complete, runs.
func (o Options) programs() []programs {
	builds := []programs{controlPlanePrograms(o.Kubernetes), etcdPrograms, helmPrograms(o.Helm)}
	if o.Kind == KindNode {
		builds = append(builds, nodePrograms(o.Kubernetes))
	}
	for i := range builds {
		builds[i].measured = o.Measured
	}
	return builds
}

func choose(variable, value string, allowed []string) (string, error) {
	if value == "" {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, value) {
		return "", fmt.Errorf("%s=%s: unknown; there are %s", variable, value, strings.Join(allowed, ", "))
	}
	return value, nil
}
