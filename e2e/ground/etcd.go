package ground

import (
	"context"
	"slices"
	"syscall"
)

// etcd is where its process stands among the programs.
func (g *cluster) etcd() **process {
	return &g.programs[slices.IndexFunc(g.programs, func(p *process) bool { return p.name == "etcd" })]
}

// SignalEtcd sends a signal to etcd, such as SIGSTOP and SIGCONT.
func (g *cluster) SignalEtcd(signal syscall.Signal) error {
	return (*g.etcd()).cmd.Process.Signal(signal)
}

// RestartEtcd kills etcd, and starts it again on what it had written.
func (g *cluster) RestartEtcd(ctx context.Context) error {
	etcd := g.etcd()
	(*etcd).stop(ctx, 0)
	next, err := again(g.fork, *etcd)
	if err == nil {
		*etcd = next
	}
	return err
}
