package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A cable is all that connects one replica to the API server. It can be cut, so that
// connections are refused, and it can be squeezed, so that nothing comes through any more.
type cable struct {
	to       string
	listener net.Listener

	mu       sync.Mutex
	cut      bool
	squeezed chan struct{} // nil, or closed when it is over
	conns    map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{to: to, listener: listener, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); c.disconnect() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c
}

func (c *cable) serve(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	c.conns[from], c.conns[to] = true, true
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.pass(to, from) })
	both.Go(func() { c.pass(from, to) })
	both.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, from)
	delete(c.conns, to)
}

func (c *cable) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		squeezed := c.squeezed
		c.mu.Unlock()
		if squeezed != nil {
			<-squeezed
		}
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

func (c *cable) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

func (c *cable) squeeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.squeezed = make(chan struct{})
}

// mend has everything come through again.
func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
	if c.squeezed != nil {
		close(c.squeezed)
		c.squeezed = nil
	}
}

// cutOffPrefix is of a Pillion that does nothing to what other tests do.
const cutOffPrefix = "cutoff.example.com"

var listeningLine = regexp.MustCompile(`reviews=(\S+) admin=(\S+)`)

// lonely is one replica, without a Service, at the end of a cable.
type lonely struct {
	cable          *cable
	reviews, admin string
	client         *http.Client
	log            *lines
}

func startLonely(t *testing.T) *lonely {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &lonely{cable: newCable(t, server.Host), log: &lines{}, client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "a", Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		Clusters: map[string]*clientcmdapi.Cluster{"a": {
			Server: "https://" + l.cable.listener.Addr().String(), TLSServerName: server.Hostname(), CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {
			ClientCertificate: config.CertFile, ClientCertificateData: config.CertData, ClientKey: config.KeyFile, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	any := httptest.NewUnstartedServer(nil)
	any.StartTLS()
	pair := any.TLS.Certificates[0]
	any.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), checkout.Pillion(), "serve", "--kubeconfig="+kubeconfig, "--namespace=cutoff", "--annotation-prefix="+cutOffPrefix, "--library=fluent-bit", "--enforcement=Manual",
		"--certs-provider=files", "--cert-file="+filepath.Join(dir, "tls.crt"), "--key-file="+filepath.Join(dir, "tls.key"), "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--shutdown-delay=0s")
	cmd.Env, cmd.Stderr = shared.Env(), l.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("its log:\n%s", l.log.String())
		}
	})
	eventually(t, soon, func() error {
		found := listeningLine.FindStringSubmatch(l.log.String())
		if found == nil {
			return errors.New("the log does not say where it serves")
		}
		l.reviews, l.admin = found[1], found[2]
		_, err := l.get("/readyz")
		return err
	})
	return l
}

// get reads a path of the replica's admin port.
func (l *lonely) get(path string) (string, error) {
	response, err := http.Get("http://" + l.admin + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}

// metric returns the value of a metric of one cache.
func (l *lonely) metric(t *testing.T, name, labels string) string {
	t.Helper()
	all, err := l.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(line, name+"{"+labels+"} "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// review sends the pod of a namespace through an entry. It reports whether the pod comes back
// injected, and the status of the answer.
func (l *lonely) review(entry, namespace string) (injected bool, status int, err error) {
	body := strings.Replace(goodReview, `"namespace":"default"`, `"namespace":"`+namespace+`"`, 1)
	response, err := l.client.Post("https://"+l.reviews+"/mutate/"+entry+"?timeout=10s", "application/json", strings.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return bytes.Contains(answer, []byte(`"patch"`)), response.StatusCode, err
}

// A namespace asks, and is enforced, while one replica is cut off, and API servers still have
// connections to it. The replica knows nothing of it, and still admits no bare pod.
func TestAReplicaThatIsCutOffAdmitsNoBarePodsAndIsCurrentSoonAfterwards(t *testing.T) {
	t.Parallel()
	l := startLonely(t)
	// The checks of a real API server come to an end, and prove nothing wrong.
	for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(100 * time.Millisecond) {
		for _, cache := range []string{"namespaces", "templates"} {
			if n := l.metric(t, "pillion_cache_wrong_total", `cache="`+cache+`"`); n != "0" {
				t.Fatalf("%s: proven wrong %s times", cache, n)
			}
		}
	}
	if strings.Contains(l.log.String(), "watches bring nothing") {
		t.Error("the watch of a check did not come to an end")
	}
	t.Attr("age-of-the-cache", l.metric(t, "pillion_cache_age_seconds", `cache="namespaces"`))
	for _, c := range []struct {
		name string
		off  func()
	}{
		{"connections are refused", l.cable.disconnect},
		{"nothing comes through any more", l.cable.squeeze},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNamespace(t, nil, nil)
			closed := newNamespace(t, map[string]string{cutOffPrefix + "/inject": "fluent-bit"}, map[string]string{cutOffPrefix + "/injection": "enforced"})
			// It knows the namespace: its cache does, or the live read.
			eventually(t, soon, func() error {
				injected, status, err := l.review("pods", n.name)
				if injected || status != http.StatusOK {
					err = fmt.Errorf("before: HTTP %d, injected %v, %v", status, injected, err)
				}
				if known, status, failed := l.review("enforced", closed.name); !known {
					err = errors.Join(err, failed, fmt.Errorf("before, of the enforced namespace: HTTP %d", status))
				}
				return err
			})
			eventually(t, soon, func() error {
				if state := l.metric(t, "pillion_cache_state", `cache="namespaces",state="current"`); state != "1" {
					return fmt.Errorf("the state current is %q", state)
				}
				return nil
			})
			c.off()
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"fluent-bit"},"labels":{%q:"enforced"}}}`, cutOffPrefix+"/inject", cutOffPrefix+"/injection")
			if _, err := client.CoreV1().Namespaces().Patch(t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			answers := map[string]int{}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range 2 {
						injected, status, err := l.review("enforced", n.name)
						mu.Lock()
						answers[fmt.Sprintf("HTTP %d, injected %v, %v", status, injected, err)]++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if want := "HTTP 503, injected false, <nil>"; answers[want] != 40 {
				t.Errorf("while it is cut off: %v, want %q forty times", answers, want)
			}
			// The API server would create a pod as it is where an enabled namespace gets no answer.
			if _, err := client.CoreV1().Namespaces().Patch(t.Context(), closed.name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"enabled"}}}`, cutOffPrefix+"/injection"), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if injected, status, err := l.review("requested", closed.name); !injected {
				t.Errorf("a namespace that it knows as enforced, and the API server has as enabled: HTTP %d, injected %v, %v", status, injected, err)
			}
			// Who knows no better is answered, and the replica says what is the matter.
			eventually(t, soon, func() error {
				if state := l.metric(t, "pillion_cache_state", `cache="namespaces",state="unreadable"`); state != "1" {
					return fmt.Errorf("the state unreadable is %q", state)
				}
				return nil
			})
			if _, status, err := l.review("pods", n.name); status != http.StatusOK {
				t.Errorf("through another entry: HTTP %d, %v", status, err)
			}
			if _, err := l.get("/readyz"); err != nil {
				t.Errorf("it leaves: %v; all would, together", err)
			}
			l.cable.mend()
			took := eventually(t, soon, func() error {
				injected, status, err := l.review("enforced", n.name)
				if !injected {
					err = fmt.Errorf("afterwards: HTTP %d, %v", status, err)
				}
				return err
			})
			t.Attr("injects-again-after", took.Round(time.Millisecond).String())
			took = eventually(t, soon, func() error {
				if _, status, _ := l.review("pods", n.name); status != http.StatusOK {
					return fmt.Errorf("HTTP %d", status)
				}
				if injected, _, _ := l.review("pods", n.name); !injected {
					return errors.New("the cache has the namespace as it was")
				}
				return nil
			})
			t.Attr("cache-current-after", took.Round(time.Millisecond).String())
			if n := strings.Count(l.log.String(), "the API server cannot be read"); n > 4 {
				t.Errorf("it says %d times that the API server cannot be read", n)
			}
		})
	}
}
