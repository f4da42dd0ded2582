package ground

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/registry"
)

// Ports on the node's address.
const (
	etcdPort        = 2379
	etcdPeerPort    = 2380
	apiServerPort   = 6443
	proxyHealthPort = 10256
)

// How long the node and its images get.
const (
	nodeLimit  = 90 * time.Second
	imageLimit = 3 * time.Minute
)

// nodeName is the name of the one node.
const nodeName = "node"

// cniPlugins is where Debian's containernetworking-plugins are.
const cniPlugins = "/usr/lib/cni"

var (
	scheduler     = subject{name: "system:kube-scheduler"}
	proxy         = subject{name: "system:kube-proxy"}
	kubelet       = subject{name: "system:node:" + nodeName, groups: []string{"system:nodes"}}
	kubeletClient = subject{name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}}
)

// Node is the ground with one node: a whole Kubernetes with kubelet, containerd and
// kube-proxy in namespaces of its own (processes, mounts, network), joined to this
// machine by one pair of interfaces. Pillion runs there as the chart's Deployment, from
// the image that the Dockerfile makes; images of other software come from a registry of
// stand-ins. It needs root on Linux, and what nodeCanRun looks for.
type Node struct {
	*cluster
	space    *space
	network  network
	images   *http.Server
	registry netip.AddrPort
}

// needed are the programs of Debian that a node needs, with their packages.
var needed = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{filepath.Join(cniPlugins, "ptp"), "containernetworking-plugins"},
	{"nft", "nftables"},
	{"iptables", "iptables"}, // kubelet and the portmap plugin
	{"ip", "iproute2"},
	{"mount", "mount"},
	{"tini", "tini"},
	{"buildah", "buildah"},
}

// nodeCanRun says what is missing on this machine for a node, if anything.
func nodeCanRun() error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	var packages []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.path); err != nil {
			packages = append(packages, n.pkg)
		}
	}
	if len(packages) > 0 {
		return fmt.Errorf("it needs more programs: apt-get install --no-install-recommends %s", strings.Join(packages, " "))
	}
	return nil
}

// StartNode builds what is not built yet, starts it, and waits until pods can run.
// Progress is written to out. When it fails, or ctx ends, nothing is left.
func StartNode(ctx context.Context, c Checkout, o Options, out io.Writer) (_ *Node, err error) {
	if err := nodeCanRun(); err != nil {
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	o.Kind = KindNode
	g := &Node{}
	if g.cluster, err = newCluster(ctx, c, o, out, g.stopSpace); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := g.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the node: %w", err), g.Close())
	}
	fmt.Fprintf(out, "node ready in %.1f s, its address is %s\n", time.Since(began).Seconds(), g.address)
	return g, nil
}

// Host implements Ground.
func (g *Node) Host() netip.Addr { return g.network.host() }

// Registry is the address, on this machine and on the node, of the registry that the node pulls all
// images from. The repositories of Released can be pushed to.
func (g *Node) Registry() string { return g.registry.String() }

func (g *Node) stopSpace() error {
	if g.images != nil {
		_ = g.images.Close() // its listener ends with the namespace anyway
	}
	if g.space == nil {
		return nil
	}
	return errors.Join(g.space.close(), removeWire(g.dir))
}

func (g *Node) start(ctx context.Context) (err error) {
	if g.space, err = newSpace(ctx, cgroupOf(g.dir), g.path("log", "init"), g.path("sysctl")); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	g.fork = g.space.fork
	if g.network, err = newNetwork(ctx, g.space, g.dir); err != nil {
		return fmt.Errorf("making the node's network: %w", err)
	}
	g.address, g.services = g.network.node(), serviceRange
	g.server = "https://" + g.at(apiServerPort)
	if err := g.credentials(scheduler, proxy, kubelet, kubeletClient); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := g.startRegistry(ctx); err != nil {
		return fmt.Errorf("starting the registry: %w", err)
	}
	if err := g.configure(); err != nil {
		return fmt.Errorf("writing configurations: %w", err)
	}
	image := make(chan error, 1)
	go func() { image <- g.pushImage(ctx) }()
	err = g.startPrograms(ctx)
	return errors.Join(err, <-image)
}

// startRegistry serves the node's images on this machine's end of the wire.
func (g *Node) startRegistry(ctx context.Context) error {
	standin := g.path("standin")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", standin, "./standin")
	cmd.Dir = g.checkout.Path("e2e")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the stand-in: %w\n%s", err, said)
	}
	reference, err := g.checkout.Image()
	if err != nil {
		return err
	}
	images, err := registry.New(standin, append(Released, reference.Repository())...)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(g.Host(), 0).String())
	if err != nil {
		return err
	}
	g.registry = listener.Addr().(*net.TCPAddr).AddrPort()
	g.images = &http.Server{Handler: images, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = g.images.Serve(listener) }() // until Close
	return nil
}

// pushImage builds Pillion's image and pushes it to the registry, under the name that
// the chart asks for.
func (g *Node) pushImage(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, imageLimit, fmt.Errorf("no image after %s", imageLimit))
	defer cancel()
	began := time.Now()
	reference, err := g.checkout.Image()
	if err != nil {
		return err
	}
	destination := fmt.Sprintf("docker://%s/%s:%s", g.registry, reference.Repository(), reference.Tag)
	digest, err := buildImage(limited, g.checkout, g.path("buildah"), destination)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.out, "image %s built in %.1f s: %s\n", reference, time.Since(began).Seconds(), digest)
	return nil
}

//go:embed node
var configurations embed.FS

// configure writes the configurations of the node's programs.
func (g *Node) configure() error {
	values := map[string]string{
		"Dir":             g.dir,
		"Socket":          "/run/containerd/containerd.sock",
		"PauseImage":      "registry.k8s.io/pause:3.10",
		"CNIPlugins":      cniPlugins,
		"Registry":        g.registry.String(),
		"Pods":            g.network.pods().String(),
		"CA":              g.path("pki", "ca.crt"),
		"PodLogs":         g.path("podlogs"),
		"Cgroup":          g.space.cgroup,
		"Node":            nodeName,
		"ProxyKubeconfig": g.kubeconfigOf(proxy),
		"ProxyHealth":     g.at(proxyHealthPort),
		"ProxySync":       cmp.Or(g.options.ProxySync, 100*time.Millisecond).String(),
	}
	for _, folder := range []string{g.path("cni"), g.path("registries", "_default"), g.path("podlogs"), g.path("volumeplugins")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	for source, target := range map[string]string{
		"containerd.toml":  g.path("containerd.toml"),
		"hosts.toml":       g.path("registries", "_default", "hosts.toml"),
		"network.conflist": g.path("cni", "network.conflist"),
		"kubelet.yaml":     g.path("kubelet.yaml"),
		"kube-proxy.yaml":  g.path("kube-proxy.yaml"),
	} {
		text, err := template.New(source).Option("missingkey=error").ParseFS(configurations, "node/"+source)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := text.Execute(&b, values); err != nil {
			return err
		}
		if err := os.WriteFile(target, b.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (g *Node) startPrograms(ctx context.Context) error {
	if _, err := g.run("containerd", "--config="+g.path("containerd.toml")); err != nil {
		return err
	}
	if err := g.startEtcd(ctx, etcdPort, etcdPeerPort); err != nil {
		return err
	}
	pki := func(name string) string { return g.path("pki", name) }
	server, err := g.addAPIServer(etcdPort, apiServerPort, nil,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate="+pki(kubeletClient.name+".crt"),
		"--kubelet-client-key="+pki(kubeletClient.name+".key"),
		"--kubelet-preferred-address-types=InternalIP",
	)
	if err != nil {
		return err
	}
	g.client = server.client
	if err := server.Start(ctx); err != nil {
		return err
	}
	if _, err := g.run("kube-scheduler", "--kubeconfig="+g.kubeconfigOf(scheduler), "--leader-elect=false",
		"--bind-address=127.0.0.1"); err != nil {
		return err
	}
	agent, err := g.run("kubelet", "--config="+g.path("kubelet.yaml"), "--kubeconfig="+g.kubeconfigOf(kubelet),
		"--root-dir="+g.path("kubelet"), "--cert-dir="+g.path("kubelet", "pki"),
		"--hostname-override="+nodeName, "--node-ip="+g.address.String())
	if err != nil {
		return err
	}
	router, err := g.run("kube-proxy", "--config="+g.path("kube-proxy.yaml"))
	if err != nil {
		return err
	}
	if err := g.startControllers(ctx, "--node-monitor-period=1s"); err != nil {
		return err
	}
	if err := agent.until(ctx, nodeLimit, g.nodeReady); err != nil {
		return err
	}
	return router.until(ctx, nodeLimit, func(ctx context.Context) error {
		return getOK(ctx, "http://"+g.at(proxyHealthPort)+"/healthz")
	})
}

// nodeReady is nil if pods can be scheduled.
func (g *Node) nodeReady(ctx context.Context) error {
	node, err := g.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node has the taints %v", node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	return errors.New("the node has not said whether it is ready")
}

// command runs a short program of this machine in the node's namespaces, or outside of
// them if fork is here().
func command(ctx context.Context, fork *forker, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = fork.attributes()
	if err := fork.do(cmd.Start); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}
