package ground

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// How long the programs of a ground get to become ready. Each takes a few seconds; a
// busy machine may make them ten times slower.
const (
	etcdLimit       = 30 * time.Second
	apiServerLimit  = 90 * time.Second
	controllerLimit = 60 * time.Second
	replicaLimit    = 60 * time.Second
)

// servicePort is the port of the chart's Service.
const servicePort = 443

// ControlPlane is the ground without nodes: etcd, kube-apiserver and
// kube-controller-manager on loopback, and Pillion as a process behind the ClusterIP of
// its Service. It needs Linux, where all of 127.0.0.0/8 is this machine.
type ControlPlane struct {
	checkout Checkout
	out      io.Writer
	dir      string
	remove   func() error
	net      loopback
	server   string   // URL of kube-apiserver
	tools    []string // folders of programs
	client   kubernetes.Interface
	programs []*process // in the order of their start

	life    context.Context // ends with Close, which interrupts Rollout and Scale
	endLife context.CancelCauseFunc
	close   func() error

	mu       sync.Mutex
	pillions map[string]*deployment // by namespace
}

// StartControlPlane builds what is not built yet, starts it, and waits until it is
// ready. Progress is written to out. When it fails, or ctx ends, nothing is left.
func StartControlPlane(ctx context.Context, c Checkout, out io.Writer) (_ *ControlPlane, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("the controlplane ground needs Linux, where all of 127.0.0.0/8 is this machine; this is %s", runtime.GOOS)
	}
	g := &ControlPlane{checkout: c, out: out, net: newLoopback(), pillions: map[string]*deployment{}}
	g.life, g.endLife = context.WithCancelCause(context.Background())
	g.close = sync.OnceValue(g.stopAll)
	if err := mayListen(g.net, servicePort); err != nil {
		return nil, err
	}
	if g.tools, err = Build(ctx, c, out); err != nil {
		return nil, err
	}
	if g.dir, g.remove, err = newScratch(ctx, c.cache("grounds")); err != nil {
		return nil, fmt.Errorf("making the ground's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	began := time.Now()
	if err := g.start(ctx); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	fmt.Fprintf(out, "control plane ready in %.1f s, Services in %s\n", time.Since(began).Seconds(), g.net.services())
	return g, nil
}

// Kubeconfig implements Ground.
func (g *ControlPlane) Kubeconfig() string { return filepath.Join(g.dir, "kubeconfig") }

// Tool implements Ground.
func (g *ControlPlane) Tool(name string) string {
	for _, dir := range g.tools {
		if path := filepath.Join(dir, name); present(path) {
			return path
		}
	}
	return filepath.Join(g.tools[0], name)
}

// Env implements Ground.
func (g *ControlPlane) Env() []string {
	path := filepath.Dir(g.checkout.Pillion())
	for _, dir := range g.tools {
		path += string(filepath.ListSeparator) + dir
	}
	return []string{
		"PATH=" + path + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOME=" + g.path("home"),
		"TMPDIR=" + g.path("tmp"),
		"KUBECONFIG=" + g.Kubeconfig(),
	}
}

// Log is the path of the log of a program: "etcd", "kube-apiserver", "kube-controller-manager".
func (g *ControlPlane) Log(program string) string { return g.path("log", program) }

// AuditLog is the path of kube-apiserver's audit log: a line of JSON for each pod that
// somebody created, or tried to.
func (g *ControlPlane) AuditLog() string { return g.path("log", "audit") }

// Close implements Ground.
func (g *ControlPlane) Close() error { return g.close() }

func (g *ControlPlane) stopAll() error {
	g.endLife(errors.New("the ground was closed"))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.pillions {
		d.stop(g.life, 0)
	}
	// Killed, not asked: that can take tens of seconds, and what they would save by it is
	// thrown away.
	for i := len(g.programs) - 1; i >= 0; i-- {
		g.programs[i].stop(g.life, 0)
	}
	if err := g.remove(); err != nil {
		return fmt.Errorf("removing the ground's folder: %w", err)
	}
	return nil
}

// untilClosed is ctx that also ends with the ground.
func (g *ControlPlane) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.life, func() { cancel(context.Cause(g.life)) })
	return ctx, func() { stop(); cancel(nil) }
}

func (g *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{g.dir}, elem...)...)
}

func (g *ControlPlane) start(ctx context.Context) error {
	for _, dir := range []string{"home", "tmp", "log"} {
		if err := os.Mkdir(g.path(dir), 0o700); err != nil {
			return err
		}
	}
	ports, err := freePorts(g.net.controlPlane(), 3)
	if err != nil {
		return err
	}
	g.server = "https://" + g.at(ports[2])
	if err := g.credentials(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := g.startEtcd(ctx, ports[0], ports[1]); err != nil {
		return err
	}
	if err := g.startAPIServer(ctx, ports[0], ports[2]); err != nil {
		return err
	}
	return g.startControllers(ctx)
}

// at is HOST:PORT on the ground's own address.
func (g *ControlPlane) at(port int) string {
	return netip.AddrPortFrom(g.net.controlPlane(), uint16(port)).String()
}

// credentials writes the certificates and the kubeconfigs of everybody.
func (g *ControlPlane) credentials() error {
	pki, err := newPKI(g.path("pki"))
	if err != nil {
		return err
	}
	if err := pki.signingKey("service-accounts"); err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	err = pki.issue("kube-apiserver", pkix.Name{CommonName: "kube-apiserver"}, names,
		net.IP(g.net.controlPlane().AsSlice()), net.IP(g.net.firstService().AsSlice()))
	if err != nil {
		return err
	}
	for path, subject := range map[string]pkix.Name{
		g.Kubeconfig(): {CommonName: "admin", Organization: []string{"system:masters"}},
		g.path("kube-controller-manager.kubeconfig"): {CommonName: "system:kube-controller-manager"},
	} {
		if err := pki.issue(subject.CommonName, subject, nil); err != nil {
			return err
		}
		user := &clientcmdapi.AuthInfo{
			ClientCertificate: pki.path(subject.CommonName + ".crt"),
			ClientKey:         pki.path(subject.CommonName + ".key"),
		}
		if err := writeKubeconfig(path, g.server, pki.path("ca.crt"), user, true); err != nil {
			return err
		}
	}
	return nil
}

// run starts a program of the control plane, and remembers it for Close.
func (g *ControlPlane) run(name string, args ...string) (*process, error) {
	p, err := startProcess(name, g.Tool(name), args, g.Env(), g.Log(name))
	if err == nil {
		g.programs = append(g.programs, p)
	}
	return p, err
}

func (g *ControlPlane) startEtcd(ctx context.Context, clientPort, peerPort int) error {
	etcd, err := g.run("etcd", g.path("etcd"), g.net.controlPlane().String(), strconv.Itoa(clientPort), strconv.Itoa(peerPort))
	if err != nil {
		return err
	}
	return etcd.until(ctx, etcdLimit, func(ctx context.Context) error {
		return getOK(ctx, "http://"+g.at(clientPort)+"/health")
	})
}

// auditPolicy has kube-apiserver record who created which pod, with the annotations that
// admission webhooks gave, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods]}]}
- {level: None}
`

func (g *ControlPlane) startAPIServer(ctx context.Context, etcdPort, port int) error {
	if err := os.WriteFile(g.path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	pki := func(name string) string { return g.path("pki", name) }
	server, err := g.run("kube-apiserver",
		"--etcd-servers=http://"+g.at(etcdPort),
		"--bind-address="+g.net.controlPlane().String(),
		"--advertise-address="+g.net.controlPlane().String(),
		"--secure-port="+strconv.Itoa(port),
		"--endpoint-reconciler-type=none", // nobody routes to the Service "kubernetes" here
		"--service-cluster-ip-range="+g.net.services().String(),
		"--tls-cert-file="+pki("kube-apiserver.crt"),
		"--tls-private-key-file="+pki("kube-apiserver.key"),
		"--client-ca-file="+pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+pki("service-accounts.pub"),
		"--service-account-signing-key-file="+pki("service-accounts.key"),
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--audit-policy-file="+g.path("audit-policy.yaml"),
		"--audit-log-path="+g.AuditLog(),
	)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", g.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	if g.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return server.until(ctx, apiServerLimit, func(ctx context.Context) error {
		return g.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (g *ControlPlane) startControllers(ctx context.Context) error {
	controllers, err := g.run("kube-controller-manager",
		"--kubeconfig="+g.path("kube-controller-manager.kubeconfig"),
		"--service-account-private-key-file="+g.path("pki", "service-accounts.key"),
		"--root-ca-file="+g.path("pki", "ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200", "--kube-api-burst=400",
	)
	if err != nil {
		return err
	}
	return controllers.until(ctx, controllerLimit, func(ctx context.Context) error {
		_, err := g.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// getOK is nil if a GET of url answers 200 within a second.
func getOK(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := direct.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return err
}

// direct is a client that never goes through a proxy and keeps no connection.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
