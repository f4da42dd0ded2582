package ground

import (
	"context"
	"net/netip"
)

// A Ground is a running Kubernetes that Pillion can be installed on.
//
// Its methods are safe for concurrent use, but those that change Pillion
// (Rollout, Scale, Kill, Close) are for one caller at a time.
type Ground interface {
	// Kind is what Options.Kind asked for.
	Kind() string
	// Versions are those of Kubernetes and Helm, for a reader.
	Versions() string
	// Kubeconfig is the path of a kubeconfig with a cluster admin's rights.
	Kubeconfig() string
	// Tool is the path of a program of the versions under test: "kubectl", "helm" or "pillion".
	Tool(name string) string
	// Env is the environment for programs that talk to this ground: KUBECONFIG, a
	// PATH that finds its tools first, and caches inside the ground's own folder.
	Env() []string
	// Host is the address of this machine that kube-apiserver reaches: where a test's own
	// webhook listens.
	Host() netip.Addr
	// AuditLog is the path of kube-apiserver's audit log: a line of JSON for each pod that
	// somebody created, or tried to, and for each request of Pillion.
	AuditLog() string
	// WebhookClient is a folder with the client certificate that kube-apiserver shows to
	// webhooks (WebhookClientName.crt and .key), with one for somebody-else, and with the CA
	// that signed both (ca.crt).
	WebhookClient() string
	// Rollout waits until the Pillion that runs is the one that the chart's Deployment
	// in namespace asks for, in as many replicas as Scale said, each of them ready. If Scale
	// never said, a node has what the Deployment asks for, a control plane one. Without such a Deployment, it waits until none runs.
	Rollout(ctx context.Context, namespace string) error
	// Scale makes it n replicas, all started at the same time, and waits until each is
	// ready; 0 stops them in order, as deleting their pods would.
	Scale(ctx context.Context, namespace string, n int) error
	// Kill ends all replicas at once, without a word, as a crashing node would. Scale
	// brings them back.
	Kill(namespace string) error
	// Replicas are the running replicas of Pillion in namespace.
	Replicas(namespace string) []Replica
	// Close removes the ground: every process, every file. It may be called twice.
	Close() error
}

// A Replica is one running Pillion.
type Replica struct {
	Name  string
	PID   int            // 0 where the ground does not know it
	Serve netip.AddrPort // where it answers admission reviews, by TLS for its Service's name
	Admin netip.AddrPort // where it answers /healthz, /readyz and /metrics
	Log   string         // path of its log
}
