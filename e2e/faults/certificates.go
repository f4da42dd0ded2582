package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
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

// certificates watches the CA's Secret, and the caBundles through every API server, and connects to
// Pillion's Service all the time, as each API server would: a new connection for each, while API
// servers themselves keep theirs.
type certificates struct {
	clients []kubernetes.Interface
	name    string // of the Service, for TLS
	address string

	mu      sync.Mutex
	bundles []map[string]bool // that each API server shows
	cas     map[string]bool   // every CA that was in the Secret
	signed  map[string]bool   // those that were the current one
	leaves  map[string]bool   // every leaf that was served
	broken  []string          // connections that an API server would not have verified
	made    int               // connections
}

func newCertificates(ctx context.Context, clients []kubernetes.Interface) (*certificates, error) {
	service, err := clients[0].CoreV1().Services(ground.Namespace).Get(ctx, ground.Release, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &certificates{
		clients: clients, name: service.Name + "." + service.Namespace + ".svc", address: net.JoinHostPort(service.Spec.ClusterIP, "443"),
		bundles: make([]map[string]bool, len(clients)), cas: map[string]bool{}, signed: map[string]bool{}, leaves: map[string]bool{},
	}, nil
}

// follow watches, and connects at that pace, until ctx ends.
func (o *certificates) follow(ctx context.Context, pace time.Duration) {
	var all sync.WaitGroup
	for i, client := range o.clients {
		all.Go(func() {
			measure.Follow(ctx, ground.Release, client.AdmissionregistrationV1().MutatingWebhookConfigurations().Watch, func(e watch.Event) {
				if c, ok := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
					o.seeBundles(i, c)
				}
			})
		})
	}
	all.Go(func() {
		measure.Follow(ctx, caSecret, o.clients[0].CoreV1().Secrets(ground.Namespace).Watch, func(e watch.Event) {
			if s, ok := e.Object.(*corev1.Secret); ok && e.Type != watch.Deleted {
				o.seeSecret(s)
			}
		})
	})
	all.Go(func() {
		measure.Every(ctx, pace, func() {
			for i := range o.clients {
				o.connect(ctx, i)
			}
		})
	})
	all.Wait()
}

func (o *certificates) seeBundles(apiServer int, c *admissionregistrationv1.MutatingWebhookConfiguration) {
	bundles := map[string]bool{}
	for _, w := range c.Webhooks {
		bundles[string(w.ClientConfig.CABundle)] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bundles[apiServer] = bundles
}

func (o *certificates) seeSecret(s *corev1.Secret) {
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

// connect makes a connection for every caBundle that the API server shows, and keeps what went wrong.
func (o *certificates) connect(ctx context.Context, apiServer int) {
	o.mu.Lock()
	bundles := o.bundles[apiServer]
	o.mu.Unlock()
	for bundle := range bundles {
		leaf, err := o.handshake(ctx, []byte(bundle))
		o.mu.Lock()
		o.made++
		if err == nil {
			o.leaves[string(leaf.Raw)] = true
		} else if ctx.Err() == nil {
			o.broken = append(o.broken, fmt.Sprintf("%s as API server %d: %v", time.Now().Format(clock), apiServer+1, err))
		}
		o.mu.Unlock()
	}
}

// handshake connects to the Service and verifies as an API server with that caBundle.
func (o *certificates) handshake(ctx context.Context, bundle []byte) (*x509.Certificate, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the caBundle holds no certificate")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: o.name, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", o.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// counts are the CAs in the Secret so far, those that were current, and the leaves served.
func (o *certificates) counts() (cas, signed, leaves int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.cas), len(o.signed), len(o.leaves)
}

// connections returns those since the last call that failed, and how many were made.
func (o *certificates) connections() (broken []string, made int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	broken, made = o.broken, o.made
	o.broken, o.made = nil, 0
	return broken, made
}
