package ground

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An APIServer is one kube-apiserver of a ground. All of one ground share etcd, certificates
// and the keys of service accounts.
type APIServer struct {
	// Kubeconfig is the path of an admin's kubeconfig that leads to this one alone.
	Kubeconfig string
	// AuditLog is the path of its own audit log.
	AuditLog string

	g       *cluster
	name    string // of its process and its log
	address string // HOST:PORT
	path    string // of its program
	args    []string
	client  kubernetes.Interface
	etcd    *cable // nil: it talks to etcd directly

	mu      sync.Mutex
	process *process // nil: it is stopped
	ready   atomic.Bool
}

// addAPIServer makes a record of a kube-apiserver that has not started. Without a cable it
// talks to etcd directly.
func (g *cluster) addAPIServer(etcdPort, port int, etcd *cable, flags ...string) (*APIServer, error) {
	if err := os.WriteFile(g.path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	s := &APIServer{Kubeconfig: g.Kubeconfig(), AuditLog: g.AuditLog(), g: g, name: "kube-apiserver", address: g.at(port), path: g.Tool("kube-apiserver"), etcd: etcd}
	if etcd != nil {
		etcdPort = etcd.port()
	}
	if n := len(g.apiServers); n > 0 {
		suffix := "-" + strconv.Itoa(n+1)
		s.name, s.AuditLog = s.name+suffix, s.AuditLog+suffix
	}
	if g.server != "https://"+s.address { // several behind one address
		s.Kubeconfig = g.path(s.name + ".kubeconfig")
		user := &clientcmdapi.AuthInfo{ClientCertificate: g.path("pki", "admin.crt"), ClientKey: g.path("pki", "admin.key")}
		if err := writeKubeconfig(s.Kubeconfig, "https://"+s.address, g.path("pki", "ca.crt"), user, true); err != nil {
			return nil, err
		}
	}
	s.args = slices.Concat(g.apiServerFlags(etcdPort, port), flags, []string{"--audit-policy-file=" + g.path("audit-policy.yaml"), "--audit-log-path=" + s.AuditLog})
	var err error
	if s.client, err = unlimited(s.Kubeconfig); err != nil {
		return nil, err
	}
	g.apiServers = append(g.apiServers, s)
	return s, nil
}

// unlimited is a client without client-side rate limits.
func unlimited(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// APIServers are the ground's kube-apiservers.
func (g *cluster) APIServers() []*APIServer { return g.apiServers }

// Start starts it as it was started before, and returns when it is ready.
func (s *APIServer) Start(ctx context.Context) error {
	process, err := startProcess(s.g.fork, s.name, s.path, s.args, s.g.Env(), s.g.Log(s.name))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	return process.until(ctx, apiServerLimit, func(ctx context.Context) error {
		if err := s.readyz(ctx); err != nil {
			return err
		}
		_, err := s.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

func (s *APIServer) readyz(ctx context.Context) error {
	return s.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// Stop ends it, in order if it manages within grace; a grace of zero kills it. All else goes on.
func (s *APIServer) Stop(ctx context.Context, grace time.Duration) {
	s.mu.Lock()
	process := s.process
	s.process = nil
	s.mu.Unlock()
	if process != nil {
		process.stop(ctx, grace)
	}
}

// Signal sends its process a signal, such as SIGSTOP and SIGCONT.
func (s *APIServer) Signal(signal os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("sending %s to %s: it does not run", signal, s.name)
	}
	return s.process.cmd.Process.Signal(signal)
}

// Lag is how much later it hears what etcd says from now on, so that its caches are late by
// as much. It needs several kube-apiservers.
func (s *APIServer) Lag(late time.Duration) { s.etcd.late.Store(int64(late)) }

// startAPIServers starts n kube-apiservers, one after the other. Those after the first hear late what
// etcd says.
func (g *ControlPlane) startAPIServers(ctx context.Context, etcdPort int, ports []int, late time.Duration, flags []string) error {
	for i, port := range ports {
		var etcd *cable
		if len(ports) > 1 {
			var err error
			if etcd, err = newCable(g.life, g.at(0), func() (string, bool) { return g.at(etcdPort), true }); err != nil {
				return err
			}
		}
		s, err := g.addAPIServer(etcdPort, port, etcd, flags...)
		if err != nil {
			return err
		}
		if err := s.Start(ctx); err != nil {
			return err
		}
		s.ready.Store(true)
		if i > 0 {
			s.Lag(late) // a start that is late is only slow
		}
		if len(ports) > 1 {
			go probe(g.life, &s.ready, 1, s.readyz)
		}
	}
	return nil
}

// newFront listens on the ground's own address, as what stands before several kube-apiservers.
// The first connection goes to number n, and each new one to the next that is ready. Connections
// that stand are left alone.
func (g *ControlPlane) newFront(port, n int) (*cable, error) {
	return newCable(g.life, g.at(port), inTurn(n, func() []string {
		var addresses []string
		for _, s := range g.apiServers {
			if s.ready.Load() {
				addresses = append(addresses, s.address)
			}
		}
		return addresses
	}))
}

// apiServer is the URL that replica n talks to. Of several kube-apiservers it meets number n first,
// counted in a circle, so that the replicas differ.
func (g *ControlPlane) apiServer(n int) (string, error) {
	if len(g.apiServers) == 1 {
		return g.server, nil
	}
	if g.fronts[n] == nil {
		front, err := g.newFront(0, n)
		if err != nil {
			return "", err
		}
		g.fronts[n] = front
	}
	return "https://" + g.at(g.fronts[n].port()), nil
}

// Kubeconfigs are the paths of an admin's kubeconfig for each kube-apiserver.
func (g *cluster) Kubeconfigs() []string {
	var paths []string
	for _, s := range g.apiServers {
		paths = append(paths, s.Kubeconfig)
	}
	return paths
}
