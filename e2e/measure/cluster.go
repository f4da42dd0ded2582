package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// A Cluster is a control plane of its own with Pillion on it.
type Cluster struct {
	*ground.ControlPlane
	Checkout ground.Checkout
	// Config is an admin's, without client-side rate limits.
	Config *rest.Config
	Client kubernetes.Interface
}

// Timed are the options for what measures time: the programs are optimised as for everybody.
func Timed() ground.Options {
	options := ground.FromEnvironment()
	options.Measured = true
	return options
}

// Start starts one and installs the chart with values, arguments of helm, in one replica.
// Progress is written to out. When it fails, nothing is left.
func Start(ctx context.Context, options ground.Options, out io.Writer, values ...string) (_ *Cluster, err error) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return nil, err
	}
	g, err := ground.StartControlPlane(ctx, checkout, options, out)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	c := &Cluster{ControlPlane: g, Checkout: checkout}
	if c.Config, c.Client, err = Connect(g.Kubeconfig()); err != nil {
		return nil, err
	}
	if err := ground.Install(ctx, g, checkout, append([]string{"--set", "replicas=1"}, values...)...); err != nil {
		return nil, fmt.Errorf("installing Pillion: %w", err)
	}
	return c, nil
}

// Clients returns a client of each kubeconfig.
func Clients(kubeconfigs []string) (clients []kubernetes.Interface, err error) {
	for _, path := range kubeconfigs {
		_, client, err := Connect(path)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// Connect makes a client without client-side rate limits, on connections of its own.
func Connect(kubeconfig string) (*rest.Config, kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	// A function that is no other's keeps clients from sharing connections.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	client, err := kubernetes.NewForConfig(config)
	return config, client, err
}

// Pillion is the one replica that runs.
func (c *Cluster) Pillion() (ground.Replica, error) {
	replicas := c.Replicas(ground.Namespace)
	if len(replicas) != 1 {
		return ground.Replica{}, fmt.Errorf("%d replicas of Pillion run, want 1", len(replicas))
	}
	return replicas[0], nil
}

// MakeNamespace makes a namespace, and returns when pods can be created in it.
func (c *Cluster) MakeNamespace(ctx context.Context, name string, annotations map[string]string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	return Within(ctx, 30*time.Second, func() error {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Within calls try every 20 ms until it returns nil, and gives up after limit with its
// last error.
func Within(ctx context.Context, limit time.Duration, try func() error) error {
	for deadline := time.Now().Add(limit); ; {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
