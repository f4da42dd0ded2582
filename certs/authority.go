package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	cmtls "github.com/cert-manager/cert-manager/pkg/server/tls"
	cmauthority "github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

// clockSkew is how far behind an API server's clock may be: a leaf is valid
// from this long before it was signed.
const clockSkew = 5 * time.Minute

// runner makes the CA's Secret and renews it: DynamicAuthority.
type runner interface {
	Run(ctx context.Context) error
}

// authority signs leaves with the CA that the Secret holds.
//
// It leaves making and renewing the CA to maker, and does the signing itself,
// because DynamicAuthority's leaves begin to be valid at the moment of signing,
// which an API server with a slower clock refuses. Since it signs with the CA
// that it was last given, it also does the notifying: a rotation announced
// before that CA has arrived here would be answered with a leaf of the old one.
type authority struct {
	maker        runner
	leafDuration time.Duration
	now          func() time.Time

	mu      sync.Mutex
	current *ca

	// known are the CAs seen by this process, the newest last.
	known   []*x509.Certificate
	watches []chan<- struct{}
}

var _ cmtls.Authority = (*authority)(nil)

// Run makes and renews the CA in the Secret until ctx ends.
func (a *authority) Run(ctx context.Context) error {
	return a.maker.Run(ctx)
}

// use makes next the CA that signs, and tells the watchers if it is another one.
func (a *authority) use(next *ca) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && a.current.cert.Equal(next.cert) {
		return
	}
	a.current = next
	a.known = append(a.known, next.cert)
	for _, ch := range a.watches {
		select {
		case ch <- struct{}{}:
		default: // the watcher has not yet seen the last one, which will do
		}
	}
}

// WatchRotation sends to ch, unless it is full, whenever another CA signs.
func (a *authority) WatchRotation(ch chan<- struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watches = append(a.watches, ch)
}

// StopWatchingRotation undoes WatchRotation.
func (a *authority) StopWatchingRotation(ch chan<- struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watches = slices.DeleteFunc(a.watches, func(c chan<- struct{}) bool { return c == ch })
}

// Sign signs the template with the current CA and sets its validity. It fails
// with cert-manager's ErrCertificateNotAvailable while there is no CA.
func (a *authority) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	a.mu.Lock()
	current := a.current
	a.mu.Unlock()
	if current == nil {
		return nil, cmauthority.ErrCertificateNotAvailable
	}
	now := a.now()
	notAfter := earlier(now.Add(a.leafDuration), current.cert.NotAfter)
	if !now.Before(notAfter) {
		return nil, fmt.Errorf("signing a serving certificate: the CA ended at %s", current.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	template.BasicConstraintsValid = true
	template.NotBefore = now.Add(-backdate(notAfter.Sub(now)))
	template.NotAfter = notAfter
	_, cert, err := pki.SignCertificate(template, current.cert, template.PublicKey, current.key)
	if err != nil {
		return nil, fmt.Errorf("signing a serving certificate: %w", err)
	}
	return cert, nil
}

// backdate is how long before now a leaf that ends in remaining begins. At most
// half of remaining, because DynamicSource renews after two thirds of the whole
// validity: those must not be over already when the leaf is new.
func backdate(remaining time.Duration) time.Duration {
	return min(clockSkew, remaining/2)
}

// issuer finds the CA that signed leaf among those that this process has seen;
// nil if it is none of them.
func (a *authority) issuer(leaf *x509.Certificate) *x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cert := range slices.Backward(a.known) {
		if leaf.CheckSignatureFrom(cert) == nil {
			return cert
		}
	}
	return nil
}
