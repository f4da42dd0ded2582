package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// lonely is one replica at the end of a cable.
type lonely struct {
	*extraReplica
	cable  *ground.Cable // all that connects it to the API server
	client *http.Client
}

func startLonely(t *testing.T) *lonely {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	cable, err := ground.NewCable(t.Context(), "127.0.0.1:0", func() (string, bool) { return server.Host, true })
	if err != nil {
		t.Fatal(err)
	}
	l := &lonely{cable: cable, client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
	const flag = "--kubeconfig="
	args := listOfReplica(t, "cmdline")
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if i < 0 {
		t.Fatalf("the replica's arguments are %q", args)
	}
	own, err := clientcmd.LoadFromFile(strings.TrimPrefix(args[i], flag))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range own.Clusters {
		c.Server, c.TLSServerName = "https://"+cable.Addr().String(), server.Hostname()
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*own, kubeconfig); err != nil {
		t.Fatal(err)
	}
	l.extraReplica = oneMore(t, flag, flag+kubeconfig)
	eventually(t, soon, func() error { return nonEmpty("the replica", l.missing()) })
	return l
}

// cache returns a metric of one of the replica's caches.
func (l *lonely) cache(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	value, err := measure.Metric(t.Context(), l.Replica, name, labels...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// becomes waits until the cache of namespaces has a state.
func (l *lonely) becomes(t *testing.T, state string) {
	t.Helper()
	eventually(t, soon, func() error {
		if l.cache(t, "pillion_cache_state", "cache", "namespaces", "state", state) != 1 {
			return fmt.Errorf("the cache of namespaces is not %s", state)
		}
		return nil
	})
}

// review sends the pod of a namespace through an entry. It reports whether the pod comes back
// injected, and the status of the answer.
func (l *lonely) review(entry, namespace string) (injected bool, status int, err error) {
	body := strings.Replace(goodReview, `"namespace":"default"`, `"namespace":"`+namespace+`"`, 1)
	response, err := l.client.Post("https://"+l.Serve.String()+"/mutate/"+entry+"?timeout=10s", "application/json", strings.NewReader(body))
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
			if n := l.cache(t, "pillion_cache_wrong_total", "cache", cache); n != 0 {
				t.Fatalf("%s: proven wrong %v times", cache, n)
			}
		}
	}
	if strings.Contains(l.log.String(), "watches bring nothing") {
		t.Error("the watch of a check did not come to an end")
	}
	t.Attr("age-of-the-cache", fmt.Sprint(l.cache(t, "pillion_cache_age_seconds", "cache", "namespaces")))
	for _, c := range []struct {
		name string
		off  func()
	}{
		{"connections are refused", l.cable.Cut},
		{"nothing comes through any more", l.cable.Squeeze},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNamespace(t, nil, nil)
			closed := newNamespace(t, asking("fluent-bit"), enforced())
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
			l.becomes(t, "current")
			c.off()
			n.mustPatch(t, `{"metadata":{"annotations":{"`+injectAnnotation+`":"fluent-bit"},"labels":{"`+injectionLabel+`":"enforced"}}}`)
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
			closed.mustPatch(t, setInjection("enabled"))
			if injected, status, err := l.review("requested", closed.name); !injected {
				t.Errorf("a namespace that it knows as enforced, and the API server has as enabled: HTTP %d, injected %v, %v", status, injected, err)
			}
			// Who knows no better is answered, and the replica says what is the matter.
			l.becomes(t, "unreadable")
			if _, status, err := l.review("pods", n.name); status != http.StatusOK {
				t.Errorf("through another entry: HTTP %d, %v", status, err)
			}
			if missing := l.missing(); missing != "" {
				t.Errorf("it leaves: %s; all would, together", missing)
			}
			l.cable.Mend()
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
