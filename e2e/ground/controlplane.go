package ground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// replicaLimit is how long a replica of Pillion gets to become ready.
const replicaLimit = 60 * time.Second

// servicePort is the port of the chart's Service.
const servicePort = 443

// ControlPlane is the ground without nodes: etcd, kube-apiserver and
// kube-controller-manager on loopback, and Pillion as a process behind the ClusterIP of
// its Service. It needs Linux, where all of 127.0.0.0/8 is this machine.
type ControlPlane struct {
	*cluster
	net    loopback
	fronts map[int]*cable // before several kube-apiservers, by the number of the replica that talks to it

	mu       sync.Mutex
	pillions map[string]*deployment // by namespace
	binary   string                 // of the replicas that start from now on
}

// UsePillion has replicas that start from now on run another binary.
func (g *ControlPlane) UsePillion(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.binary = path
}

// StartControlPlane builds what is not built yet, starts it, and waits until it is
// ready. Progress is written to out. When it fails, or ctx ends, nothing is left.
func StartControlPlane(ctx context.Context, c Checkout, o Options, out io.Writer) (_ *ControlPlane, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("the controlplane ground needs Linux, where all of 127.0.0.0/8 is this machine; this is %s", runtime.GOOS)
	}
	g := &ControlPlane{net: newLoopback(), fronts: map[int]*cable{}, pillions: map[string]*deployment{}, binary: c.Webhook()}
	if err := mayListen(g.net, servicePort); err != nil {
		return nil, err
	}
	o.Kind = KindControlPlane
	if g.cluster, err = newCluster(ctx, c, o, out, g.stopReplicas); err != nil {
		return nil, err
	}
	g.address, g.services = g.net.controlPlane(), g.net.services()
	began := time.Now()
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), g.Close())
	}
	fmt.Fprintf(out, "control plane ready in %.1f s, Services in %s\n", time.Since(began).Seconds(), g.services)
	return g, nil
}

// Host implements Ground.
func (g *ControlPlane) Host() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

func (g *ControlPlane) stopReplicas() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.pillions {
		d.stop(g.life, 0)
	}
	return nil
}

func (g *ControlPlane) start(ctx context.Context) error {
	apiServers := g.options.APIServers
	ports, err := freePorts(g.address, 3+apiServers)
	if err != nil {
		return err
	}
	g.server = "https://" + g.at(ports[3])
	if apiServers > 1 {
		if _, err := g.newFront(ports[2], 0); err != nil {
			return err
		}
		g.server = "https://" + g.at(ports[2])
	}
	if err := g.credentials(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if g.client, err = unlimited(g.Kubeconfig()); err != nil {
		return err
	}
	if err := g.startEtcd(ctx, ports[0], ports[1]); err != nil {
		return err
	}
	err = g.startAPIServers(ctx, ports[0], ports[3:], g.options.Lag, []string{
		"--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none", // nobody routes to the Service "kubernetes" here
	})
	if err != nil {
		return err
	}
	return g.startControllers(ctx)
}
