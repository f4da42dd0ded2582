package ground

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// probeEvery is how often a balancer asks the replicas whether they are ready. One that fails so often
// in a row leaves, as with the chart's readiness probe.
const (
	probeEvery       = 100 * time.Millisecond
	failureThreshold = 2
)

// A balancer stands for kube-proxy and the endpoints of one Service: it listens on the
// ClusterIP, and passes each new connection to the next ready replica. Connections that
// stand are left alone when a replica leaves.
type balancer struct {
	address string
	stop    context.CancelFunc

	mu      sync.Mutex
	targets []Replica
	ready   []netip.AddrPort
	next    int
}

// balance has the deployment's balancer, if the ground has them, pass connections to its
// replicas from now on.
func (g *ControlPlane) balance(ctx context.Context, d *deployment, object *appsv1.Deployment) error {
	if !g.balanced {
		return nil
	}
	clusterIP, err := clusterIP(ctx, g.client, object)
	if err != nil {
		return err
	}
	path, err := readiness(object)
	if err != nil {
		return err
	}
	address := netip.AddrPortFrom(clusterIP, servicePort)
	if d.balancer != nil && d.balancer.address != address.String() {
		d.balancer.stop()
		d.balancer = nil
	}
	if d.balancer == nil {
		if d.balancer, err = newBalancer(g.life, address, path); err != nil {
			return err
		}
	}
	d.balancer.aim(d.replicas)
	return nil
}

func newBalancer(ctx context.Context, address netip.AddrPort, path string) (*balancer, error) {
	ctx, stop := context.WithCancel(ctx)
	b := &balancer{address: address.String(), stop: stop}
	if _, err := newCable(ctx, b.address, b.pick); err != nil {
		stop()
		return nil, fmt.Errorf("listening on the ClusterIP: %w", err)
	}
	go b.probe(ctx, path)
	return b, nil
}

// aim sets the replicas that get connections when they are ready.
func (b *balancer) aim(replicas []*replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = nil
	for _, r := range replicas {
		b.targets = append(b.targets, r.Replica)
	}
}

// probe keeps the list of ready replicas.
func (b *balancer) probe(ctx context.Context, path string) {
	failures := map[int]int{} // by process
	for ctx.Err() == nil {
		b.mu.Lock()
		targets := b.targets
		b.mu.Unlock()
		var ready []netip.AddrPort
		for _, t := range targets {
			switch known := slices.Contains(b.goesTo(), t.Serve); {
			case getOK(ctx, "http://"+t.Admin.String()+path) == nil:
				failures[t.PID] = 0
			case !known:
				continue
			default:
				failures[t.PID]++
			}
			if failures[t.PID] < failureThreshold {
				ready = append(ready, t.Serve)
			}
		}
		b.mu.Lock()
		if slices.Equal(targets, b.targets) { // else others are to be asked
			b.ready = ready
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

// goesTo is where new connections go.
func (b *balancer) goesTo() []netip.AddrPort {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready
}

// pick is the replica for the next connection.
func (b *balancer) pick() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return "", false
	}
	b.next++
	return b.ready[b.next%len(b.ready)].String(), true
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
	if object == nil || !g.balanced {
		return fmt.Errorf("replacing the replicas of Pillion in %s: no Deployment, or a ground that is not Balanced", namespace)
	}
	// The other half of the addresses.
	first := 0
	if len(d.replicas) > 0 && d.replicas[0].number == 0 {
		first = maxReplicas / 2
	}
	programs, err := g.programsOf(ctx, object, first+d.wanted)
	if err != nil {
		return err
	}
	next := &deployment{wanted: d.wanted}
	for i, p := range programs[first:] {
		r, err := g.startReplica(ctx, object, first+i, p)
		if err != nil {
			next.stop(ctx, 0)
			return fmt.Errorf("starting replica %d of Pillion in %s: %w", first+i, namespace, err)
		}
		next.replicas = append(next.replicas, r)
	}
	if err := g.untilReady(ctx, next, object); err != nil {
		return err
	}
	old := &deployment{replicas: d.replicas}
	d.replicas = next.replicas
	if err := g.balance(ctx, d, object); err != nil {
		return err
	}
	goesTo := func(r *replica) bool { return slices.Contains(d.balancer.goesTo(), r.Serve) }
	for limit := time.Now().Add(replicaLimit); slices.ContainsFunc(old.replicas, goesTo) && time.Now().Before(limit) && ctx.Err() == nil; {
		time.Sleep(probeEvery)
	}
	old.stop(ctx, stopGrace)
	return nil
}
