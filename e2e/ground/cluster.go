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
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// How long the programs of a ground get to become ready. Each takes a few seconds; a
// busy machine may make them ten times slower.
const (
	etcdLimit       = 30 * time.Second
	apiServerLimit  = 90 * time.Second
	controllerLimit = 60 * time.Second
)

// A cluster is what all grounds have that run their own control plane: a folder, tools,
// credentials, and etcd, kube-apiserver and kube-controller-manager as processes.
type cluster struct {
	checkout   Checkout
	options    Options // complete
	out        io.Writer
	dir        string
	remove     func() error
	tools      []string   // folders of programs
	fork       *forker    // where programs are started
	address    netip.Addr // what etcd and kube-apiserver listen on
	services   netip.Prefix
	server     string // URL of kube-apiserver, or of what stands before several
	client     kubernetes.Interface
	programs   []*process // in the order of their start
	apiServers []*APIServer

	life  context.Context // ends with Close, which interrupts what waits
	close func() error
}

// newCluster builds the programs and makes the folder of a cluster that has not started. Its Close removes
// with stop what the ground has besides.
func newCluster(ctx context.Context, c Checkout, o Options, out io.Writer, stop func() error) (*cluster, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	g := &cluster{checkout: c, options: o, out: out, fork: here()}
	var end context.CancelCauseFunc
	g.life, end = context.WithCancelCause(context.Background())
	g.close = sync.OnceValue(func() error {
		end(errors.New("the ground was closed"))
		err := stop()
		g.kill()
		return errors.Join(err, g.remove())
	})
	if g.tools, err = build(ctx, c, o.programs(), out); err != nil {
		return nil, err
	}
	if g.dir, g.remove, err = newScratch(ctx, c.cache("grounds")); err != nil {
		return nil, fmt.Errorf("making the ground's folder: %w", err)
	}
	for _, dir := range []string{"home", "tmp", "log"} {
		if err := os.Mkdir(g.path(dir), 0o700); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	return g, nil
}

// Close implements Ground.
func (g *cluster) Close() error { return g.close() }

// Kind implements Ground.
func (g *cluster) Kind() string { return g.options.Kind }

// Versions implements Ground.
func (g *cluster) Versions() string {
	return fmt.Sprintf("Kubernetes %s, Helm %s", g.options.Kubernetes, g.options.Helm)
}

// Kubeconfig implements Ground.
func (g *cluster) Kubeconfig() string { return filepath.Join(g.dir, "kubeconfig") }

// Tool implements Ground. It finds Debian's programs, too, which the ground itself runs.
func (g *cluster) Tool(name string) string {
	if strings.HasPrefix(name, "pillion") {
		return g.checkout.Path("bin", name)
	}
	for _, dir := range g.tools {
		if path := filepath.Join(dir, name); present(path) {
			return path
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return name
}

// Env implements Ground.
func (g *cluster) Env() []string {
	path := slices.Concat([]string{filepath.Dir(g.checkout.Pillion())}, g.tools, []string{os.Getenv("PATH")})
	return []string{
		"PATH=" + strings.Join(path, string(filepath.ListSeparator)),
		"HOME=" + g.path("home"),
		"TMPDIR=" + g.path("tmp"),
		"KUBECONFIG=" + g.Kubeconfig(),
	}
}

// Log is the path of the log of a program: "etcd", "kube-apiserver", "kube-controller-manager".
func (g *cluster) Log(program string) string { return g.path("log", program) }

// AuditLog implements Ground.
func (g *cluster) AuditLog() string { return g.path("log", "audit") }

// untilClosed is ctx that also ends with the ground.
func (g *cluster) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.life, func() { cancel(context.Cause(g.life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// kill ends all programs of the control plane. They are not asked: that can take tens of
// seconds, and what they would save by it is thrown away.
func (g *cluster) kill() {
	for i := len(g.programs) - 1; i >= 0; i-- {
		g.programs[i].stop(g.life, 0)
	}
	for _, s := range g.apiServers {
		s.Stop(g.life, 0)
	}
}

func (g *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{g.dir}, elem...)...)
}

// at is HOST:PORT on the ground's own address.
func (g *cluster) at(port int) string {
	return netip.AddrPortFrom(g.address, uint16(port)).String()
}

// firstService is the address of the Service "kubernetes".
func (g *cluster) firstService() netip.Addr { return g.services.Addr().Next() }

// A subject is somebody with a certificate and a kubeconfig: the common name, and the
// groups.
type subject struct {
	name   string
	groups []string
}

var (
	admin      = subject{name: "admin", groups: []string{"system:masters"}}
	controller = subject{name: "system:kube-controller-manager"}
)

// kubeconfigOf is the path of the kubeconfig of a program.
func (g *cluster) kubeconfigOf(s subject) string {
	if s.name == admin.name {
		return g.Kubeconfig()
	}
	return g.path("pki", s.name+".kubeconfig")
}

// credentials writes the certificates and the kubeconfigs of everybody.
func (g *cluster) credentials(subjects ...subject) error {
	if err := g.webhookClient(); err != nil {
		return err
	}
	pki, err := newPKI(g.path("pki"))
	if err != nil {
		return err
	}
	if err := pki.signingKey("service-accounts"); err != nil {
		return err
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	err = pki.issue("kube-apiserver", pkix.Name{CommonName: "kube-apiserver"}, names,
		net.IP(g.address.AsSlice()), net.IP(g.firstService().AsSlice()))
	if err != nil {
		return err
	}
	for _, s := range append([]subject{admin, controller}, subjects...) {
		if err := pki.issue(s.name, pkix.Name{CommonName: s.name, Organization: s.groups}, nil); err != nil {
			return err
		}
		user := &clientcmdapi.AuthInfo{ClientCertificate: pki.path(s.name + ".crt"), ClientKey: pki.path(s.name + ".key")}
		if err := writeKubeconfig(g.kubeconfigOf(s), g.server, pki.path("ca.crt"), user, true); err != nil {
			return err
		}
	}
	return nil
}

// run starts a program of the control plane, and remembers it for kill.
func (g *cluster) run(name string, args ...string) (*process, error) {
	p, err := startProcess(g.fork, name, g.Tool(name), args, g.Env(), g.Log(name))
	if err == nil {
		g.programs = append(g.programs, p)
	}
	return p, err
}

func (g *cluster) startEtcd(ctx context.Context, clientPort, peerPort int) error {
	etcd, err := g.run("etcd", g.path("etcd"), g.address.String(), strconv.Itoa(clientPort), strconv.Itoa(peerPort))
	if err != nil {
		return err
	}
	return etcd.until(ctx, etcdLimit, func(ctx context.Context) error {
		return getOK(ctx, "http://"+g.at(clientPort)+"/health")
	})
}

// auditPolicy has kube-apiserver record who created which pod, with the annotations that
// admission webhooks gave, what Pillion itself asked for, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods]}]}
- {level: Metadata, users: ["system:serviceaccount:` + Namespace + `:` + Release + `"]}
- {level: None}
`

// apiServerFlags are those of every kube-apiserver.
func (g *cluster) apiServerFlags(etcdPort, port int) []string {
	pki := func(name string) string { return g.path("pki", name) }
	return []string{
		"--etcd-servers=http://" + g.at(etcdPort),
		"--bind-address=" + g.address.String(),
		"--advertise-address=" + g.address.String(),
		"--secure-port=" + strconv.Itoa(port),
		"--service-cluster-ip-range=" + g.services.String(),
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-accounts.pub"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--allow-privileged=true",
		"--admission-control-config-file=" + g.admissionConfiguration(),
	}
}

func (g *cluster) startControllers(ctx context.Context, more ...string) error {
	controllers, err := g.run("kube-controller-manager", append([]string{
		"--kubeconfig=" + g.kubeconfigOf(controller),
		"--service-account-private-key-file=" + g.path("pki", "service-accounts.key"),
		"--root-ca-file=" + g.path("pki", "ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}, more...)...)
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
