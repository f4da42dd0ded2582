package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const registrationGroup = "admissionregistration.k8s.io"

// Everything of docs/concepts/security.md at once: no right that harms, which testdata/chart shows, reviews of
// the API server only, a NetworkPolicy. Not in parallel: it takes the place of the shared release.
func TestAHardenedInstallInjectsAndAnswersTheAPIServerOnly(t *testing.T) {
	const home = ground.Namespace
	instead(t)
	own := manifest{name: "own", spec: sidecarSpec}
	file := inFile(t, "own.yaml", own.yaml())
	ca := newIssuer(t)
	name := "pillion." + home + ".svc"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "serving"}, Type: corev1.SecretTypeTLS, Data: ca.signFor(t, name)}
	create(t, client.CoreV1().Secrets(home), secret)
	pki := shared.WebhookClient()
	must(t, "", "helm", append([]string{"install", ground.Release, checkout.Chart(), "-n", home, "--set-file", "templates.own=" + file, "--set-file", "webhook.clientCA=" + filepath.Join(pki, "ca.crt")}, flags([]string{
		"rbac.hardened=true", "certs.provider=files", "certs.files.secretName=" + secret.Name,
		"webhook.clientNames={" + ground.WebhookClientName + "}", "networkPolicy.enabled=true", "networkPolicy.apiServers[0].ipBlock.cidr=" + shared.Host().String() + "/32",
		"shutdown.delaySeconds=0", "replicas=1",
	})...)...)
	expectNoError(t, publish(t.Context(), client, configuration, ca.PEM()))
	rolledOut(t, home)

	n := newNamespace(t, asking(own.name), enforced())
	injects(t, n, own.name)

	t.Run("an event is on the namespace", func(t *testing.T) {
		must(t, fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: refused}\nspec: {template: {metadata: {annotations: {%s.pillion.dev/log-level: loud}}, spec: {restartPolicy: Never, containers: [{name: app, image: busybox}]}}}\n", own.name),
			"kubectl", "-n", n.name, "apply", "-f", "-")
		n.waitEvent(t, "Namespace", "BadParameter", "")
	})

	t.Run("nobody is answered but the API server", func(t *testing.T) {
		serve := shared.Replicas(home)[0].Serve.String()
		roots := x509.NewCertPool()
		roots.AddCert(ca.Certificate)
		other := newIssuer(t).signFor(t, ground.WebhookClientName)
		foreign, err := tls.X509KeyPair(other[corev1.TLSCertKey], other[corev1.TLSPrivateKeyKey])
		expectNoError(t, err)
		issued := func(name string) *tls.Certificate {
			pair, err := tls.LoadX509KeyPair(filepath.Join(pki, name+".crt"), filepath.Join(pki, name+".key"))
			expectNoError(t, err)
			return &pair
		}
		for who, c := range map[string]struct {
			certificate *tls.Certificate
			answered    bool
		}{
			"a client without a certificate":                {nil, false},
			"a client of another CA":                        {&foreign, false},
			"a client of the CA by another name":            {issued("somebody-else"), false},
			"a client with the API server's own credential": {issued(ground.WebhookClientName), true},
		} {
			config := &tls.Config{RootCAs: roots, ServerName: name}
			if c.certificate != nil {
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.certificate, nil }
			}
			transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, serve)
			}}
			response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("https://"+name+"/mutate/requested", "application/json", strings.NewReader(goodReview))
			var body []byte
			if err == nil {
				body, _ = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			if got := err == nil && response.StatusCode == http.StatusOK; got != c.answered || !got && len(body) > 0 {
				t.Errorf("%s: %v, body %q; want an answer: %t", who, err, body, c.answered)
			}
			transport.CloseIdleConnections()
		}
		said, err := readyz(shared.Replicas(home)[0])
		if err != nil || !strings.HasPrefix(said, "ok") {
			t.Errorf("/readyz: %q, %v", said, err)
		}
	})
}
