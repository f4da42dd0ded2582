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

// ParseOptions reads settings as a shell has them before a command, with commas between them:
// GROUND=node,K8S=1.37,HELM=4.
func ParseOptions(settings string) (Options, error) {
	var o Options
	for setting := range strings.SplitSeq(settings, ",") {
		name, value, _ := strings.Cut(setting, "=")
		switch name {
		case "GROUND":
			o.Kind = value
		case "K8S":
			o.Kubernetes = value
		case "HELM":
			o.Helm = value
		default:
			return Options{}, fmt.Errorf("%q is none of GROUND=…, K8S=…, HELM=…", setting)
		}
	}
	return o, nil
}

// String names the ground that the options choose, when all three are set.
func (o Options) String() string {
	return fmt.Sprintf("%s, Kubernetes %s, Helm %s", o.Kind, o.Kubernetes, o.Helm)
}

// Chosen are the options of a ground of that kind that was started with o.
func (o Options) Chosen(kind string) (Options, error) {
	kubernetes, kubernetesErr := choose("K8S", o.Kubernetes, kubernetesVersions)
	helm, helmErr := choose("HELM", o.Helm, helmVersions)
	o.Kind, o.Kubernetes, o.Helm = kind, kubernetes, helm
	return o, errors.Join(kubernetesErr, helmErr)
}

// Differ tells what o asks for explicitly and a ground with the chosen options is not, as
// settings; empty if that ground will do.
func (o Options) Differ(chosen Options) []string {
	var differ []string
	for _, setting := range []struct{ name, asked, is string }{
		{"GROUND", o.Kind, chosen.Kind}, {"K8S", o.Kubernetes, chosen.Kubernetes}, {"HELM", o.Helm, chosen.Helm},
	} {
		if setting.asked != "" && setting.asked != setting.is {
			differ = append(differ, setting.name+"="+setting.asked)
		}
	}
	return differ
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

// controlPlane are the programs that every ground needs, with kubectl and helm.
func (o Options) controlPlane() ([]programs, error) {
	kubernetes, kubernetesErr := choose("K8S", o.Kubernetes, kubernetesVersions)
	helm, helmErr := choose("HELM", o.Helm, helmVersions)
	builds := []programs{controlPlanePrograms(kubernetes), etcdPrograms(), helmPrograms(helm)}
	return o.optimised(builds), errors.Join(kubernetesErr, helmErr)
}

// node are those that a node needs besides.
func (o Options) node() ([]programs, error) {
	builds, err := o.controlPlane()
	if err != nil {
		return nil, err
	}
	kubernetes, err := choose("K8S", o.Kubernetes, kubernetesVersions)
	return o.optimised(append(builds, nodePrograms(kubernetes))), err
}

func (o Options) optimised(builds []programs) []programs {
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
