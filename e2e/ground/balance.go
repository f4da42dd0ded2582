package ground

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// probeEvery is how often something is asked whether it is ready. A replica that fails so often
// in a row leaves, as with the chart's readiness probe.
const (
	probeEvery       = 100 * time.Millisecond
	failureThreshold = 2
)

// probe keeps ready as ask finds it, until ctx ends: false after so many failures in a row.
func probe(ctx context.Context, ready *atomic.Bool, threshold int, ask func(context.Context) error) {
	defer ready.Store(false)
	for failures := 0; ctx.Err() == nil; {
		failures++
		limited, cancel := context.WithTimeout(ctx, time.Second)
		if ask(limited) == nil {
			failures = 0
		}
		cancel()
		if failures == 0 || failures >= threshold {
			ready.Store(failures == 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

// inTurn returns what gives one address of those that are ready after the other, the first one from place n.
func inTurn(n int, ready func() []string) func() (address string, ok bool) {
	var next atomic.Int64
	next.Store(int64(n))
	return func() (string, bool) {
		addresses := ready()
		if len(addresses) == 0 {
			return "", false
		}
		return addresses[int(next.Add(1)-1)%len(addresses)], true
	}
}

// A balancer stands for kube-proxy and the endpoints of one Service: it listens on the
// ClusterIP, and passes each new connection to the next ready replica. Connections that
// stand are left alone when a replica leaves.
type balancer struct {
	address string
	stop    context.CancelFunc
	targets atomic.Pointer[[]*replica]
}

// balance has the deployment's balancer, if the ground has them, pass connections to its
// replicas from now on.
func (g *ControlPlane) balance(ctx context.Context, d *deployment, object *appsv1.Deployment) error {
	if !g.options.Balanced {
		return nil
	}
	clusterIP, err := clusterIP(ctx, g.client, object)
	if err != nil {
		return err
	}
	address := netip.AddrPortFrom(clusterIP, servicePort).String()
	if d.balancer != nil && d.balancer.address != address {
		d.balancer.stop()
		d.balancer = nil
	}
	if d.balancer == nil {
		life, stop := context.WithCancel(g.life)
		d.balancer = &balancer{address: address, stop: stop}
		if _, err := newCable(life, address, inTurn(0, d.balancer.ready)); err != nil {
			stop()
			d.balancer = nil
			return fmt.Errorf("listening on the ClusterIP: %w", err)
		}
	}
	replicas := slices.Clone(d.replicas)
	d.balancer.targets.Store(&replicas)
	return nil
}

// ready are the addresses of the replicas that are ready.
func (b *balancer) ready() []string {
	var addresses []string
	if targets := b.targets.Load(); targets != nil {
		for _, r := range *targets {
			if r.ready.Load() {
				addresses = append(addresses, r.Serve.String())
			}
		}
	}
	return addresses
}

// Replace starts as many replicas as there are, all at the same time, beside those that
// run; when they are ready it gives them all new connections, and asks the old ones to
// end, as a rolling update with the greatest surge would. It needs Balanced.
func (g *ControlPlane) Replace(ctx context.Context, namespace string) error {
	ctx, done := g.untilClosed(ctx)
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.deployment(namespace)
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	if object == nil || !g.options.Balanced {
		return fmt.Errorf("replacing the replicas of Pillion in %s: no Deployment, or a ground that is not Balanced", namespace)
	}
	// The other half of the addresses.
	first := 0
	if len(d.replicas) > 0 && d.replicas[0].number == 0 {
		first = maxReplicas / 2
	}
	p, err := newProgram(ctx, g.client, object)
	if err != nil {
		return err
	}
	next := &deployment{wanted: d.wanted}
	if err := g.startReplicas(ctx, next, object, first, p); err != nil {
		return err
	}
	if err := g.untilReady(ctx, next, object); err != nil {
		return err
	}
	old := &deployment{replicas: d.replicas}
	d.replicas = next.replicas
	if err := g.balance(ctx, d, object); err != nil {
		return err
	}
	old.stop(ctx, stopGrace)
	return nil
}
