package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "serving"}, Type: corev1.SecretTypeTLS, Data: ca.sign(t)}
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

	t.Run("a client without a certificate is answered nothing", func(t *testing.T) {
		roots := x509.NewCertPool()
		roots.AddCert(ca.Certificate)
		replica := shared.Replicas(home)[0]
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}}, Timeout: 10 * time.Second}
		if response, err := client.Post("https://"+replica.Serve.String()+"/mutate/requested", "application/json", strings.NewReader(goodReview)); err == nil && response.StatusCode == http.StatusOK {
			t.Errorf("it is answered with %s", response.Status)
		}
		if said, err := readyz(replica); err != nil || !strings.HasPrefix(said, "ok") {
			t.Errorf("/readyz: %q, %v", said, err)
		}
	})
}
