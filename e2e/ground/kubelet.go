package ground

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// As the chart's livenessProbe has it. A probe that is not answered within a second fails, too.
const (
	livePeriod   = 3 * time.Second
	liveFailures = 3
)

// restartPause is how soon a replica that has ended is started again.
const restartPause = time.Second

// Kubelet does what nodes' kubelets would for the replicas in namespace, until ctx ends: one that
// ends is started again at the same address, as what UsePillion says, and one that hangs is ended. It does not need
// kube-apiserver for that.
func (g *ControlPlane) Kubelet(ctx context.Context, namespace string) {
	failed := map[int]int{} // by process
	for probe := time.Now(); ctx.Err() == nil; {
		g.revive(namespace)
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
		if time.Since(probe) < livePeriod {
			continue
		}
		probe = time.Now()
		g.mu.Lock()
		replicas := append([]*replica(nil), g.deployment(namespace).replicas...)
		g.mu.Unlock()
		healthy := make([]bool, len(replicas))
		var all sync.WaitGroup
		for i, r := range replicas {
			all.Go(func() { healthy[i] = getOK(ctx, "http://"+r.Admin.String()+"/healthz") == nil })
		}
		all.Wait()
		for i, r := range replicas {
			if failed[r.PID]++; healthy[i] {
				delete(failed, r.PID)
			} else if failed[r.PID] == liveFailures {
				r.process.killGroup()
			}
		}
	}
}

// revive starts the replicas that have ended, and does not wait until they are ready.
func (g *ControlPlane) revive(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.deployment(namespace).replicas {
		if r.process.alive() {
			continue
		}
		r.process.cmd.Path = g.binary
		next, err := again(g.fork, r.process)
		if err != nil {
			fmt.Fprintf(g.out, "starting %s again: %v\n", r.Name, err)
			continue
		}
		r.process, r.PID = next, next.cmd.Process.Pid
	}
}

// again starts a program that has ended as it was started before.
func again(fork *forker, p *process) (*process, error) {
	return startProcess(fork, p.name, p.cmd.Path, p.cmd.Args[1:], p.cmd.Env, p.log)
}
