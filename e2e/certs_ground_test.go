package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/faults"
	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// certsGround is a ground for the tests about certificates: two kube-apiservers, and
// three replicas that all get connections.
type certsGround struct {
	*ground.ControlPlane
	client kubernetes.Interface // of an admin, at the first API server
}

func newCertsGround(t *testing.T) *certsGround {
	t.Helper()
	options := ground.FromEnvironment()
	options.APIServers, options.Lag, options.Balanced = 2, faults.RotationLag, true
	return newOwnGround(t, options)
}

// newOwnGround starts a control plane that the test has for itself.
func newOwnGround(t *testing.T, options ground.Options) *certsGround {
	t.Helper()
	g, err := ground.StartControlPlane(t.Context(), checkout, options, os.Stderr)
	expectNoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(g)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	_, client, err := measure.Connect(g.Kubeconfig())
	expectNoError(t, err)
	return &certsGround{g, client}
}

// run runs one of the ground's tools, which must succeed.
func (g *certsGround) run(t *testing.T, tool string, args ...string) string {
	t.Helper()
	out, err := ground.Run(t.Context(), g, tool, args...)
	expectNoError(t, err)
	return out
}

// install installs Pillion with certificates by the values, in three replicas; ready says
// whether to wait for them. The test's end takes it away.
func (g *certsGround) install(t *testing.T, ready bool, values ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := ground.Run(ctx, g, "helm", "uninstall", ground.Release, "-n", ground.Namespace)
		if err = errors.Join(err, g.Rollout(ctx, ground.Namespace)); err != nil {
			t.Error(err)
		}
	})
	args := append([]string{"--set", "library={fluent-bit}", "--set", "shutdown.delaySeconds=1", "--set", "certs.settle=1s"}, flags(values)...)
	g.run(t, "helm", ground.InstallArgs(g, checkout.Chart(), args...)...)
	if ready {
		g.scale(t)
	}
}

// scale starts three replicas and waits until each is ready.
func (g *certsGround) scale(t *testing.T) {
	t.Helper()
	expectNoError(t, g.Scale(t.Context(), ground.Namespace, faults.RotationReplicas))
}

// under does work under load, and fails the test if that cost a pod or a connection.
func (g *certsGround) under(t *testing.T, work func(context.Context) error) {
	t.Helper()
	var said strings.Builder
	result, err := faults.Under(t.Context(), g.ControlPlane, checkout, &said, work)
	if err != nil {
		t.Errorf("%v\n%s", err, &said)
	}
	if wrong := result.Wrong(); len(wrong) > 0 {
		t.Errorf("of %d pods and %d connections: %q\n%s", result.Tried, result.Connections, wrong, &said)
	}
	t.Logf("%d pods and %d connections, all well; %d leaves", result.Tried, result.Connections, result.Leaves)
}

// bundle is bundleOf for the chart's own configurations.
func (g *certsGround) bundle(ctx context.Context) ([]byte, error) {
	return bundleOf(ctx, g.client, configuration)
}

// bundleOf is the caBundle that all entries of both configurations of that name have, an error if one
// has another one, or none. The empty line of a bundle's first text does not count.
func bundleOf(ctx context.Context, client kubernetes.Interface, name string) (bundle []byte, err error) {
	err = eachEntry(ctx, client, name, false, func(entry string, c *admissionregistrationv1.WebhookClientConfig) error {
		text := append(bytes.TrimSpace(c.CABundle), '\n')
		if bundle == nil {
			bundle = text
		}
		if len(c.CABundle) == 0 || !bytes.Equal(bundle, text) {
			return fmt.Errorf("entry %s has the caBundle %q, another one %q", entry, c.CABundle, bundle)
		}
		return nil
	})
	return bundle, err
}

// publish writes the caBundle of every entry of both configurations of that name, as the
// admin of an installation with files does.
func publish(ctx context.Context, client kubernetes.Interface, name string, bundle []byte) error {
	return eachEntry(ctx, client, name, true, func(_ string, c *admissionregistrationv1.WebhookClientConfig) error {
		c.CABundle = bundle
		return nil
	})
}

// eachEntry calls do for the entries of both configurations of that name, and writes what it changed.
func eachEntry(ctx context.Context, client kubernetes.Interface, name string, write bool, do func(entry string, c *admissionregistrationv1.WebhookClientConfig) error) error {
	api := client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range mutating.Webhooks {
		err = errors.Join(err, do(mutating.Webhooks[i].Name, &mutating.Webhooks[i].ClientConfig))
	}
	for i := range validating.Webhooks {
		err = errors.Join(err, do(validating.Webhooks[i].Name, &validating.Webhooks[i].ClientConfig))
	}
	if err != nil || !write {
		return err
	}
	_, err = api.MutatingWebhookConfigurations().Update(ctx, mutating, metav1.UpdateOptions{})
	_, validatingErr := api.ValidatingWebhookConfigurations().Update(ctx, validating, metav1.UpdateOptions{})
	return errors.Join(err, validatingErr)
}

// presented is the certificate that the replica shows to a new connection, whoever signed it.
func presented(ctx context.Context, r ground.Replica, change func(*tls.Config)) (*x509.Certificate, error) {
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "pillion." + ground.Namespace + ".svc"}
	if change != nil {
		change(config)
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", r.Serve.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// allServe is nil if every replica serves what the test wants.
func (g *certsGround) allServe(ctx context.Context, want func(*x509.Certificate) error) error {
	replicas := g.Replicas(ground.Namespace)
	if len(replicas) != faults.RotationReplicas {
		return fmt.Errorf("%d replicas run", len(replicas))
	}
	for _, r := range replicas {
		cert, err := presented(ctx, r, nil)
		if err == nil {
			err = want(cert)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return nil
}

// certificateFolder returns the folder of this machine from which the replica reads its certificate: its settings name it.
func certificateFolder(r ground.Replica) (string, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID))
	if err != nil {
		return "", err
	}
	for arg := range strings.SplitSeq(string(line), "\x00") {
		file, ok := strings.CutPrefix(arg, "--config=")
		if !ok {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var settings struct{ Certificates struct{ Folder string } }
		return settings.Certificates.Folder, yaml.Unmarshal(text, &settings)
	}
	return "", fmt.Errorf("%s has no argument --config", r.Name)
}

// asked is what the admin port of a replica answers to a GET of a path.
func asked(r ground.Replica, path string) (status int, body string, err error) {
	response, err := http.Get("http://" + r.Admin.String() + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// readyz is what the replica says of itself, whether ready or not.
func readyz(r ground.Replica) (string, error) {
	_, text, err := asked(r, "/readyz")
	return text, err
}
