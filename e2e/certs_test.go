package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Certificates by each provider, on a ground of their own: two API servers, of which one learns of changes late,
// three replicas, and pods created all the time. Rotations on one API server and damages are told in
// rotation_test.go, longer runs are `make rotate`. Most of its time is waiting for certificates to
// end, so other tests run beside it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	g := newCertsGround(t)
	t.Run("self-signed: a CA that leaked is gone after its Secret was deleted, under load", g.testLeaked)
	t.Run("files: replaced under load", g.testFiles)
	expectNoError(t, g.StartCertManager(t.Context()))
	t.Run("cert-manager: renewed under load", g.testCertManager)
}

// healBound is more than the second that is promised: the machine that runs the tests may
// be busy with others.
const healBound = 3 * time.Second

// An issuer signs for the tests of files.
type issuer struct{ *ground.Authority }

func newIssuer(t *testing.T) issuer {
	t.Helper()
	a, err := ground.NewAuthority()
	expectNoError(t, err)
	return issuer{a}
}

// sign makes what a Secret of type kubernetes.io/tls holds, for Pillion's Service.
func (i issuer) sign(t *testing.T) map[string][]byte {
	t.Helper()
	name := "pillion." + ground.Namespace + ".svc"
	cert, key, err := i.Sign(x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	expectNoError(t, err)
	return map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
}

// is returns a check that a certificate is the wanted one.
func is(want *x509.Certificate) func(*x509.Certificate) error {
	return func(cert *x509.Certificate) error {
		if !cert.Equal(want) {
			return errors.New("the new certificate is not served")
		}
		return nil
	}
}

// signed is whether a certificate is one of the issuer's.
func (i issuer) signed(cert *x509.Certificate) error { return cert.CheckSignatureFrom(i.Certificate) }

func (g *certsGround) testFiles(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ground.Namespace}}
	if _, err := g.client.CoreV1().Namespaces().Create(t.Context(), home, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ground.Namespace, Name: unique("files")},
		Type:       corev1.SecretTypeTLS, Data: first.sign(t),
	}
	create(t, g.client.CoreV1().Secrets(ground.Namespace), secret)
	g.install(t, false, "certs.provider=files", "certs.files.secretName="+secret.Name)
	expectNoError(t, publish(t.Context(), g.client, configuration, first.PEM()))
	g.scale(t)
	g.under(t, func(ctx context.Context) error {
		// As values.yaml has it: the new CA beside the old one, then the files.
		if err := publish(ctx, g.client, configuration, append(first.PEM(), second.PEM()...)); err != nil {
			return err
		}
		for _, r := range g.Replicas(ground.Namespace) {
			if err := swap(r, second.sign(t)); err != nil {
				return err
			}
		}
		if err := measure.Within(ctx, soon, func() error { return g.allServe(ctx, second.signed) }); err != nil {
			return err
		}
		return publish(ctx, g.client, configuration, second.PEM())
	})
}

// swap replaces the mounted pair of a replica, each file by renaming.
func swap(r ground.Replica, data map[string][]byte) error {
	dir, err := certificateFolder(r)
	if err != nil {
		return err
	}
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", data[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// issueLimit is how long cert-manager gets to issue a certificate: its controllers wait 5,
// 10, 20 seconds and so on after each error, and a conflict between two of them is one.
const issueLimit = 2 * time.Minute

// renew has cert-manager issue a certificate again, by deleting its Secret, and returns when there is
// another one.
func (g *certsGround) renew(ctx context.Context, secret string) error {
	before, err := g.current(ctx, secret, corev1.TLSCertKey)
	if err != nil {
		return err
	}
	if err := g.client.CoreV1().Secrets(ground.Namespace).Delete(ctx, secret, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return measure.Within(ctx, issueLimit, func() error {
		after, err := g.current(ctx, secret, corev1.TLSCertKey)
		if err == nil && after.Equal(before) {
			err = fmt.Errorf("cert-manager has not issued the certificate of %s again", secret)
		}
		return err
	})
}

// current is the certificate in a Secret.
func (g *certsGround) current(ctx context.Context, secret, key string) (*x509.Certificate, error) {
	s, err := g.client.CoreV1().Secrets(ground.Namespace).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(s.Data[key])
	if block == nil {
		return nil, fmt.Errorf("secret %s has no certificate in %s", secret, key)
	}
	return x509.ParseCertificate(block.Bytes)
}

// The Secrets of the chart with cert-manager.
const servingSecret, rootSecret = "pillion-serving", "pillion-serving-ca"

// renewLeafAndCA renews the leaf, then the CA and the leaf by it, each time until every
// replica serves the new leaf.
func (g *certsGround) renewLeafAndCA(ctx context.Context) error {
	for _, secrets := range [][]string{{servingSecret}, {rootSecret, servingSecret}} {
		for _, secret := range secrets {
			if err := g.renew(ctx, secret); err != nil {
				return err
			}
		}
		want, err := g.current(ctx, servingSecret, corev1.TLSCertKey)
		if err != nil {
			return err
		}
		if err := measure.Within(ctx, soon, func() error { return g.allServe(ctx, is(want)) }); err != nil {
			return err
		}
	}
	return nil
}

func (g *certsGround) testCertManager(t *testing.T) {
	g.install(t, true, "certs.provider=cert-manager", "rbac.hardened=true")
	g.under(t, g.renewLeafAndCA)
	ca, err := g.current(t.Context(), servingSecret, "ca.crt")
	expectNoError(t, err)
	if len(ca.PermittedDNSDomains) == 0 || !ca.PermittedDNSDomainsCritical {
		t.Error("cert-manager's CA has no critical name constraints")
	}
	expectNoError(t, publish(t.Context(), g.client, configuration, nil))
	eventually(t, soon, func() error {
		bundle, err := g.bundle(t.Context())
		if err == nil && !bytes.Equal(bundle, certificatePEM(ca)) {
			err = fmt.Errorf("cainjector published\n%s", bundle)
		}
		return err
	})
}

func certificatePEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// testLeaked has an admin do what docs/how-to/certificates.md says of a CA that leaked. No pod is refused
// meanwhile. Leaves are short so that the CA may go soon.
func (g *certsGround) testLeaked(t *testing.T) {
	// The CA of another install, which Helm keeps, may be about to end.
	if err := g.client.CoreV1().Secrets(ground.Namespace).Delete(t.Context(), caSecret, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	g.install(t, true, "certs.leafDuration=20s")
	g.under(t, func(ctx context.Context) error {
		leaked, err := g.current(ctx, caSecret, "ca.crt")
		if err != nil {
			return err
		}
		if _, err := ground.Run(ctx, g, "kubectl", "-n", ground.Namespace, "delete", "secret", caSecret); err != nil {
			return err
		}
		if err := g.Replace(ctx, ground.Namespace); err != nil { // kubectl rollout restart
			return err
		}
		return measure.Within(ctx, 2*time.Minute, func() error {
			bundle, err := g.bundle(ctx)
			if err == nil && bytes.Contains(bundle, certificatePEM(leaked)) {
				err = errors.New("the CA that leaked is in the caBundles")
			}
			return err
		})
	})
}
