package rotation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// The objects that Pillion keeps.
const (
	configurationName = "pillion"
	secretName        = "pillion-ca"
	serviceName       = "pillion"
)

// sight is what one API server shows of the webhook configuration at present.
type sight struct {
	uid     string
	version uint64 // the object's resourceVersion
	bundles [][]byte
	since   time.Time // when it came to show this
}

// observer watches the webhook configuration through every API server and the CA's
// Secret, and connects to Pillion as each of the API servers would.
type observer struct {
	clients []kubernetes.Interface
	address string // of the Service

	mu     sync.Mutex
	sights []sight
	cas    map[string]bool // every CA that was in the Secret
	signed map[string]bool // those that were the current one
	leaves map[string]bool // every leaf that was served
	broken []string        // handshakes that failed while every API server had a bundle
	shaken int
}

func newObserver(ctx context.Context, clients []kubernetes.Interface) (*observer, error) {
	service, err := clients[0].CoreV1().Services(ground.Namespace).Get(ctx, serviceName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &observer{
		clients: clients, address: net.JoinHostPort(service.Spec.ClusterIP, "443"),
		sights: make([]sight, len(clients)), cas: map[string]bool{}, signed: map[string]bool{}, leaves: map[string]bool{},
	}, nil
}

// run observes until ctx ends.
func (o *observer) run(ctx context.Context) {
	var all sync.WaitGroup
	for i, client := range o.clients {
		all.Go(func() {
			configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
			measure.Follow(ctx, configurationName, configurations.Watch, func(e watch.Event) {
				if c, ok := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
					o.seeConfiguration(i, e.Type, c)
				}
			})
		})
	}
	all.Go(func() {
		measure.Follow(ctx, secretName, o.clients[0].CoreV1().Secrets(ground.Namespace).Watch, func(e watch.Event) {
			if s, ok := e.Object.(*corev1.Secret); ok && e.Type != watch.Deleted {
				o.seeSecret(s)
			}
		})
	})
	all.Go(func() {
		for ctx.Err() == nil {
			for i := range o.clients {
				o.shake(ctx, i)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	all.Wait()
}

func (o *observer) seeConfiguration(apiServer int, kind watch.EventType, c *admissionregistrationv1.MutatingWebhookConfiguration) {
	s := sight{uid: string(c.UID), version: revision(c.ResourceVersion), since: time.Now()}
	if kind == watch.Deleted {
		s.uid = ""
	} else {
		for _, w := range c.Webhooks {
			s.bundles = append(s.bundles, w.ClientConfig.CABundle)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sights[apiServer] = s
}

func (o *observer) seeSecret(s *corev1.Secret) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, sets := range map[string][]map[string]bool{"tls.crt": {o.cas, o.signed}, "next-tls.crt": {o.cas}} {
		block, _ := pem.Decode(s.Data[key])
		if block == nil {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA || cert.Subject.CommonName != "pillion-ca" {
			continue
		}
		for _, set := range sets {
			set[string(cert.Raw)] = true
		}
	}
}

func (o *observer) sight(apiServer int) sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sights[apiServer]
}

// revision is a resourceVersion as a number: that of the whole etcd, greater when later.
func revision(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64) // it always is one
	return n
}

// healthy is nil if a new connection is verified by every caBundle that the API server
// shows now, and not only by some. since is from when on it has shown them. What it showed
// before the version does not count.
func (o *observer) healthy(ctx context.Context, apiServer int, version uint64) (since time.Time, err error) {
	s := o.sight(apiServer)
	if s.version < version {
		return s.since, fmt.Errorf("API server %d shows what was before", apiServer+1)
	}
	if s.uid == "" || len(s.bundles) == 0 {
		return s.since, errors.New("there is no webhook configuration")
	}
	checked := map[string]bool{}
	for i, bundle := range s.bundles {
		if checked[string(bundle)] {
			continue
		}
		if err := o.handshake(ctx, bundle); err != nil {
			return s.since, fmt.Errorf("entry %d, as API server %d shows it: %w", i, apiServer+1, err)
		}
		checked[string(bundle)] = true
	}
	return s.since, nil
}

// handshake connects to the Service and verifies as an API server with that caBundle.
func (o *observer) handshake(ctx context.Context, bundle []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("the caBundle holds no certificate")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: serviceName + "." + ground.Namespace + ".svc", MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", o.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaves[string(leaf.Raw)] = true
	return nil
}

// shake makes one handshake as the API server would, and keeps what went wrong.
func (o *observer) shake(ctx context.Context, apiServer int) {
	o.mu.Lock()
	known := o.sights[apiServer].uid != ""
	o.mu.Unlock()
	if !known {
		return
	}
	_, err := o.healthy(ctx, apiServer, 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shaken++
	if err != nil && ctx.Err() == nil {
		o.broken = append(o.broken, time.Now().Format("15:04:05.000 ")+err.Error())
	}
}

// counts are the CAs in the Secret so far, those that were current, and the leaves served.
func (o *observer) counts() (cas, signed, leaves int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.cas), len(o.signed), len(o.leaves)
}

// handshakes returns the failed handshakes since the last call, and how many were made.
func (o *observer) handshakes() (broken []string, made int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	broken, o.broken = o.broken, nil
	made, o.shaken = o.shaken, 0
	return broken, made
}
