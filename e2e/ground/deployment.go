package ground

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
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
	identity string // of the program that its replicas run
	wanted   int
	replicas []*replica
	balancer *balancer // of a ground that is Balanced, from the first start on
}

// A replica is one Pillion.
type replica struct {
	Replica
	number   int
	process  *process
	ready    atomic.Bool // on a ground that is Balanced
	endProbe func()
}

// stop ends all replicas at the same time, as process.stop has it.
func (d *deployment) stop(ctx context.Context, grace time.Duration) {
	var all sync.WaitGroup
	for _, r := range d.replicas {
		all.Go(func() {
			r.process.stop(ctx, grace)
			r.endProbe()
		})
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
	return g.rollout(ctx, namespace)
}

// rollout is Rollout for who holds g.mu.
func (g *ControlPlane) rollout(ctx context.Context, namespace string) error {
	d := g.deployment(namespace)
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	if object == nil {
		d.stop(ctx, stopGrace)
		return nil
	}
	p, err := newProgram(ctx, g.client, object)
	if err != nil {
		return err
	}
	if d.identity == p.identity() && d.running(d.wanted) {
		return nil
	}
	return g.restart(ctx, d, object, p)
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
	d.wanted, d.identity = n, "" // all start anew
	if n == 0 {
		d.stop(ctx, stopGrace)
		return nil
	}
	if err := g.rollout(ctx, namespace); err != nil || len(d.replicas) > 0 {
		return err
	}
	return fmt.Errorf("scaling Pillion: no Deployment in namespace %s", namespace)
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

// restart replaces what runs by as many replicas as are wanted, started together.
func (g *ControlPlane) restart(ctx context.Context, d *deployment, object *appsv1.Deployment, p program) error {
	d.stop(ctx, stopGrace)
	d.identity = p.identity()
	if err := g.startReplicas(ctx, d, object, 0, p); err != nil {
		return err
	}
	if err := g.balance(ctx, d, object); err != nil {
		d.stop(ctx, 0)
		return err
	}
	return g.untilReady(ctx, d, object)
}

// startReplicas starts as many replicas as are wanted, numbered from first, or none.
func (g *ControlPlane) startReplicas(ctx context.Context, d *deployment, object *appsv1.Deployment, first int, p program) error {
	for n := first; n < first+d.wanted; n++ {
		r, err := g.startReplica(ctx, object, n, p)
		if err != nil {
			d.stop(ctx, 0)
			return fmt.Errorf("starting replica %d of Pillion in %s: %w", n, object.Namespace, err)
		}
		d.replicas = append(d.replicas, r)
	}
	return nil
}

// untilReady waits until every replica says that it is ready; if one does not, all are
// stopped.
func (g *ControlPlane) untilReady(ctx context.Context, d *deployment, object *appsv1.Deployment) error {
	var failed error
	for _, r := range d.replicas {
		err := r.process.until(ctx, replicaLimit, r.readyz(object))
		r.ready.Store(err == nil)
		failed = errors.Join(failed, err)
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

// readyz asks what the chart's readiness probe asks.
func (r *replica) readyz(object *appsv1.Deployment) func(context.Context) error {
	path := object.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path
	return func(ctx context.Context) error { return getOK(ctx, "http://"+r.Admin.String()+path) }
}

// startReplica starts replica number n: the container's own arguments, environment and settings, but for the
// addresses and the kubeconfig, which only hold here.
func (g *ControlPlane) startReplica(ctx context.Context, object *appsv1.Deployment, n int, p program) (*replica, error) {
	address := g.net.replica(n)
	ports, err := freePorts(address, 1)
	if err != nil {
		return nil, err
	}
	r := &replica{number: n, endProbe: func() {}, Replica: Replica{
		Name:  object.Name + "-" + strconv.Itoa(n),
		Serve: netip.AddrPortFrom(address, servicePort),
		Admin: netip.AddrPortFrom(address, uint16(ports[0])),
		Log:   g.path("log", object.Namespace+"-"+strconv.Itoa(n)),
	}}
	if n == 0 && !g.options.Balanced {
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
	dir := g.path(object.Namespace, strconv.Itoa(n))
	args, env, err := p.write(dir, r.Serve.String(), r.Admin.String())
	if err != nil {
		return nil, err
	}
	kubeconfig, err := g.serviceAccount(ctx, object, server, dir)
	if err != nil {
		return nil, err
	}
	if r.process, err = startProcess(g.fork, r.Name, g.binary, append(args, "--kubeconfig="+kubeconfig), env, r.Log); err != nil {
		return nil, err
	}
	r.PID = r.process.cmd.Process.Pid
	if g.options.Balanced {
		var life context.Context
		life, r.endProbe = context.WithCancel(g.life)
		go probe(life, &r.ready, failureThreshold, r.readyz(object))
	}
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
