package ground

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// stopGrace is how long a replica gets to end by itself: a pod's default
// terminationGracePeriodSeconds.
const stopGrace = 30 * time.Second

// tokenLifetime is longer than any ground lives.
const tokenLifetime = 365 * 24 * time.Hour

// A deployment is Pillion as it runs in one namespace: what the deployment controller,
// the scheduler and the kubelet would do with the chart's Deployment.
type deployment struct {
	identity string // of everything that its processes were made from
	wanted   int
	replicas []*replica
	balancer *balancer // of a ground that is Balanced, from the first start on
}

// A replica is one Pillion.
type replica struct {
	Replica
	number  int
	process *process
}

// stop ends all replicas at the same time, as process.stop has it.
func (d *deployment) stop(ctx context.Context, grace time.Duration) {
	var all sync.WaitGroup
	for _, r := range d.replicas {
		all.Go(func() { r.process.stop(ctx, grace) })
	}
	all.Wait()
	d.replicas = nil
}

// deployment is the record for namespace; the caller holds g.mu.
func (g *ControlPlane) deployment(namespace string) *deployment {
	d := g.pillions[namespace]
	if d == nil {
		d = &deployment{wanted: 1}
		g.pillions[namespace] = d
	}
	return d
}

// Rollout implements Ground. Replicas that a change concerns are all stopped before the
// new ones start: the ClusterIP is one address, and only one process can listen on it.
func (g *ControlPlane) Rollout(ctx context.Context, namespace string) error {
	ctx, done := g.untilClosed(ctx)
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.deployment(namespace)
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	if object == nil {
		d.stop(ctx, stopGrace)
		return nil
	}
	programs, err := g.programsOf(ctx, object, d.wanted)
	if err != nil {
		return err
	}
	identity := identify(programs)
	if d.identity == identity && d.running(d.wanted) {
		return nil
	}
	return g.restart(ctx, d, object, programs, identity)
}

// Scale implements Ground. The first replica listens on the Service's ClusterIP and gets
// all that kube-apiserver sends; the others listen on addresses of their own.
func (g *ControlPlane) Scale(ctx context.Context, namespace string, n int) error {
	if n < 0 || n > maxReplicas {
		return fmt.Errorf("scaling Pillion in %s: %d replicas, allowed are 0 to %d", namespace, n, maxReplicas)
	}
	ctx, done := g.untilClosed(ctx)
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.deployment(namespace)
	d.wanted = n
	if n == 0 {
		d.stop(ctx, stopGrace)
		return nil
	}
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	if object == nil {
		return fmt.Errorf("scaling Pillion: no Deployment in namespace %s", namespace)
	}
	programs, err := g.programsOf(ctx, object, n)
	if err != nil {
		return err
	}
	return g.restart(ctx, d, object, programs, identify(programs))
}

// Kill implements Ground.
func (g *ControlPlane) Kill(namespace string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.deployment(namespace)
	if len(d.replicas) == 0 {
		return fmt.Errorf("killing Pillion in %s: none runs", namespace)
	}
	d.stop(g.life, 0)
	return nil
}

// Replicas implements Ground.
func (g *ControlPlane) Replicas(namespace string) []Replica {
	g.mu.Lock()
	defer g.mu.Unlock()
	var running []Replica
	for _, r := range g.deployment(namespace).replicas {
		if r.process.alive() {
			running = append(running, r.Replica)
		}
	}
	return running
}

func (d *deployment) running(n int) bool {
	alive := 0
	for _, r := range d.replicas {
		if r.process.alive() {
			alive++
		}
	}
	return alive == n && len(d.replicas) == n
}

// restart replaces what runs by one process for each of programs, started together.
func (g *ControlPlane) restart(ctx context.Context, d *deployment, object *appsv1.Deployment, programs []program, identity string) error {
	d.stop(ctx, stopGrace)
	d.identity = identity
	for n, p := range programs {
		r, err := g.startReplica(ctx, object, n, p)
		if err != nil {
			d.stop(ctx, 0)
			return fmt.Errorf("starting replica %d of Pillion in %s: %w", n, object.Namespace, err)
		}
		d.replicas = append(d.replicas, r)
	}
	if err := g.balance(ctx, d, object); err != nil {
		d.stop(ctx, 0)
		return err
	}
	return g.untilReady(ctx, d, object)
}

// untilReady waits until every replica says that it is ready; if one does not, all are
// stopped.
func (g *ControlPlane) untilReady(ctx context.Context, d *deployment, object *appsv1.Deployment) error {
	ready, err := readiness(object)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range d.replicas {
		failed = errors.Join(failed, r.process.until(ctx, replicaLimit, func(ctx context.Context) error {
			return getOK(ctx, "http://"+r.Admin.String()+ready)
		}))
	}
	if failed != nil {
		d.stop(ctx, 0)
	}
	return failed
}

// findDeployment is the one Deployment of namespace, nil if there is none.
func findDeployment(ctx context.Context, client kubernetes.Interface, namespace string) (*appsv1.Deployment, error) {
	list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for Pillion's Deployment: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	default:
		return nil, fmt.Errorf("looking for Pillion's Deployment: namespace %s has %d Deployments, and the ground runs one", namespace, len(list.Items))
	}
}

// clusterIP is the address of the Service in front of the Deployment's pods that has the
// port that webhooks are called on.
func clusterIP(ctx context.Context, client kubernetes.Interface, object *appsv1.Deployment) (netip.Addr, error) {
	services, err := client.CoreV1().Services(object.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking for Pillion's Service: %w", err)
	}
	for _, s := range services.Items {
		selects := labels.SelectorFromSet(s.Spec.Selector)
		if selects.Empty() || !selects.Matches(labels.Set(object.Spec.Template.Labels)) {
			continue
		}
		for _, port := range s.Spec.Ports {
			if port.Port == servicePort {
				return netip.ParseAddr(s.Spec.ClusterIP)
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no Service in namespace %s has port %d and selects the pods of Deployment %s", object.Namespace, servicePort, object.Name)
}

// readiness is the path that the chart's readiness probe asks.
func readiness(object *appsv1.Deployment) (string, error) {
	probe := object.Spec.Template.Spec.Containers[0].ReadinessProbe
	if probe == nil || probe.HTTPGet == nil {
		return "", fmt.Errorf("the container of Deployment %s/%s has no readiness probe by HTTP", object.Namespace, object.Name)
	}
	return probe.HTTPGet.Path, nil
}

// programsOf are the programs of n replicas.
func (g *ControlPlane) programsOf(ctx context.Context, object *appsv1.Deployment, n int) ([]program, error) {
	var programs []program
	for i := range n {
		s := surroundings{
			client:    g.client,
			namespace: object.Namespace,
			dir:       g.path(object.Namespace, strconv.Itoa(i)),
		}
		p, err := s.program(ctx, &object.Spec.Template.Spec)
		if err != nil {
			return nil, fmt.Errorf("running Deployment %s/%s: %w", object.Namespace, object.Name, err)
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// identify tells programs that differ in anything apart.
func identify(programs []program) string {
	text, err := json.Marshal(programs)
	if err != nil {
		panic(fmt.Sprintf("a program is plain data: %v", err))
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// startReplica starts replica number n: the container's own arguments, environment and settings, but for the
// addresses and the kubeconfig, which only hold here.
func (g *ControlPlane) startReplica(ctx context.Context, object *appsv1.Deployment, n int, p program) (*replica, error) {
	if err := p.writeFiles(); err != nil {
		return nil, err
	}
	address := g.net.replica(n)
	ports, err := freePorts(address, 1)
	if err != nil {
		return nil, err
	}
	r := &replica{number: n, Replica: Replica{
		Name:  object.Name + "-" + strconv.Itoa(n),
		Serve: netip.AddrPortFrom(address, servicePort),
		Admin: netip.AddrPortFrom(address, uint16(ports[0])),
		Log:   g.path("log", object.Namespace+"-"+strconv.Itoa(n)),
	}}
	if n == 0 && !g.balanced {
		clusterIP, err := clusterIP(ctx, g.client, object)
		if err != nil {
			return nil, err
		}
		r.Serve = netip.AddrPortFrom(clusterIP, servicePort)
	}
	server, err := g.apiServer(n)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := g.serviceAccount(ctx, object, server, p.Dir)
	if err != nil {
		return nil, err
	}
	if err := p.setAddresses(r.Serve.String(), r.Admin.String()); err != nil {
		return nil, err
	}
	args := append(slices.Clone(p.Args), "--kubeconfig="+kubeconfig)
	if r.process, err = startProcess(g.fork, r.Name, g.binary, args, p.Env, r.Log); err != nil {
		return nil, err
	}
	r.PID = r.process.cmd.Process.Pid
	return r, nil
}

// serviceAccount writes to dir a kubeconfig for server with a token of the Deployment's service account.
func (g *ControlPlane) serviceAccount(ctx context.Context, object *appsv1.Deployment, server, dir string) (string, error) {
	name, seconds := object.Spec.Template.Spec.ServiceAccountName, int64(tokenLifetime/time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := g.client.CoreV1().ServiceAccounts(object.Namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of service account %s/%s: %w", object.Namespace, name, err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	return kubeconfig, writeKubeconfig(kubeconfig, server, g.path("pki", "ca.crt"), &clientcmdapi.AuthInfo{Token: answer.Status.Token}, false)
}
