package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// mostMiB is what no load may take the process past. The chart's limit is 256.
const mostMiB = 230

// withVariables is a pod with n variables, in the form that takes the least bytes.
func withVariables(n int) *corev1.Pod {
	pod := newPod("large", nil)
	pod.Spec.Containers[0].Env = make([]corev1.EnvVar, n)
	for i := range pod.Spec.Containers[0].Env {
		pod.Spec.Containers[0].Env[i].Name = "a"
	}
	return pod
}

// reviewIn is a review of a pod in a namespace, with more in its container.
func reviewIn(namespace, more string) string {
	text := strings.Replace(goodReview, `"namespace":"default"`, `"namespace":"`+namespace+`"`, 1)
	return strings.Replace(text, `"image":"nginx"`, `"image":"nginx"`+more, 1)
}

// many calls do n times at once, and returns when all have returned.
func many(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// hold opens n connections, writes text on each, and keeps them until ctx ends.
func hold(ctx context.Context, t *testing.T, n int, address, text string, config *tls.Config) {
	many(50, func(i int) {
		for j := i; j < n && ctx.Err() == nil; j += 50 {
			conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
			if err != nil {
				continue // the server has closed its door for a moment
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if config != nil {
				conn = tls.Client(conn, config)
			}
			_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
			_, _ = io.WriteString(conn, text) // it may have been closed for a newer one
		}
	})
	<-ctx.Done()
}

// stall sends all of a review's body but its last byte, and waits until the server or ctx ends
// the connection.
func stall(ctx context.Context, size int, address string, config *tls.Config) {
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err = fmt.Fprintf(conn, "POST /mutate/requested HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size+1)
	text := []byte(strings.Repeat(" ", 1000))
	for sent := 0; sent < size && err == nil; sent += len(text) {
		_, err = conn.Write(text)
	}
	_, _ = io.Copy(io.Discard, conn)
}

// An attack is a load that should not get the server into trouble.
type attack struct {
	name string
	// run goes on until ctx ends, or returns before. What it returns is printed.
	run func(ctx context.Context) (outcome string)
}

// Each attack goes on for a second, in `make attacks` for as long as ATTACK says. There
// the API server, too, is brought to its limits.
func TestNoLoadTakesTheProcessPastItsMemory(t *testing.T) {
	lasting, thorough, clients := time.Second, false, 2
	if text := os.Getenv("ATTACK"); text != "" {
		var err error
		if lasting, err = time.ParseDuration(text); err != nil {
			t.Fatalf("ATTACK: %v", err)
		}
		thorough, clients = true, 4
	}
	backToOne(t)
	replica := shared.Replicas(ground.Namespace)[0]
	r := newReviewer(t, replica)
	n := newNamespace(t, asking("fluent-bit"), nil)
	injects(t, n, "fluent-bit")
	busy := newNamespace(t, asking("environment,fluent-bit,oauth2-proxy"), nil)
	small, config := reviewIn(n.name, ""), r.Transport.TLSClientConfig
	unfinished := func(n int) string {
		return fmt.Sprintf("POST /mutate/requested HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n+1, strings.Repeat(" ", n))
	}
	// The API server itself takes seconds for such a pod.
	create := func(_ context.Context, in *namespace, clients int, pod *corev1.Pod) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var mu sync.Mutex
		said := map[string]int{}
		many(clients, func(int) {
			out, err := in.client.CoreV1().Pods(in.name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			word := "injected"
			switch {
			case err != nil && strings.Contains(err.Error(), "TemplateTooExpensive"):
				word = "refused as too expensive"
			case err != nil:
				word = fmt.Sprintf("refused: %.200s", err)
			case len(out.Spec.InitContainers) == 0:
				word = "LET THROUGH"
				if !thorough { // an API server that needs ten seconds for itself does not wait
					t.Errorf("a pod of %d variables and %d containers passed without its sidecar", len(pod.Spec.Containers[0].Env), len(pod.Spec.Containers))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			said[word]++
		})
		return fmt.Sprint(said)
	}
	send := func(ctx context.Context, clients int, path string, body func() string) string {
		var mu sync.Mutex
		said := map[int]int{}
		many(clients, func(int) {
			for ctx.Err() == nil {
				status, _, err := r.Post(ctx, path, 30*time.Second, strings.NewReader(body()))
				if err != nil {
					continue
				}
				mu.Lock()
				said[status]++
				mu.Unlock()
			}
		})
		return fmt.Sprint("HTTP ", said)
	}
	post := func(ctx context.Context, clients int, body func() string) string {
		return send(ctx, clients, "/mutate/requested", body)
	}
	manyContainers := newPod("containers", nil)
	for i := range 8000 {
		manyContainers.Spec.Containers = append(manyContainers.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "x"})
	}
	objects := `,"future":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 7_300_000/8), ",") + `]`
	attacks := []attack{
		{"small reviews only", func(ctx context.Context) string { <-ctx.Done(); return "" }},
		{fmt.Sprint(clients, " dry runs of 230,000 variables"), func(ctx context.Context) string { return create(ctx, n, clients, withVariables(230_000)) }},
		{"7.3 MB of small objects, 4 clients", func(ctx context.Context) string {
			return post(ctx, 4, func() string { return reviewIn(n.name, objects) })
		}},
		{"previews of 7.3 MB, 50 KB and 400 bytes, 32 clients", func(ctx context.Context) string {
			var turn atomic.Int64
			return send(ctx, 32, "/preview", func() string {
				return reviewIn(n.name, []string{objects, objects[:50_010] + "]", ""}[turn.Add(1)%3])
			})
		}},
		{"2,000 connections of 65,000 bytes", func(ctx context.Context) string {
			hold(ctx, t, 2000, replica.Serve.String(), unfinished(65_000), config)
			return ""
		}},
		// Of the small ones, each counts as slow at another moment.
		{"10 clients that stall in 66,000 bytes, and 10 in 28 MB", func(ctx context.Context) string {
			many(20, func(i int) {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				stall(ctx, []int{66_000, 28_000_000}[i/10], replica.Serve.String(), config)
			})
			<-ctx.Done()
			return ""
		}},
		{"2,000 connections of 60,000 bytes of header", func(ctx context.Context) string {
			hold(ctx, t, 2000, replica.Serve.String(), "POST /mutate/requested HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 60_000), config)
			return ""
		}},
		{"5,000 connections to the admin port", func(ctx context.Context) string {
			hold(ctx, t, 5000, replica.Admin.String(), "GET /metrics HTTP/1.1\r\n", nil)
			return ""
		}},
		{"320 clients in namespaces that do not exist", func(ctx context.Context) string {
			return post(ctx, 320, func() string { return reviewIn(unique("none"), "") })
		}},
		{fmt.Sprint(3*clients, " dry runs of 8,000 containers, three templates"), func(ctx context.Context) string { return create(ctx, busy, 3*clients, manyContainers) }},
	}
	tenants := make([]*namespace, 4)
	if thorough {
		tenants = make([]*namespace, 40)
	}
	for i := range tenants {
		tenants[i] = newNamespace(t, nil, nil)
	}
	theirs := newNamespaceOfTheWorst(t)
	long := func(n int) string {
		return strings.Replace(reviewIn(theirs.name, ""), `"metadata":{`, `"metadata":{"annotations":{"text":"`+strings.Repeat("a", n)+`"},`, 1)
	}
	if status, answer := review(t, r, long(300)); status != 200 || !strings.Contains(answer, "the expressions of all templates of the pod together cost more than") {
		t.Fatalf("the worst templates are not evaluated until they cost what they may: %d %.300s", status, answer)
	}
	attacks = append(attacks,
		attack{fmt.Sprint(len(tenants), " tenants who write the worst twenty templates of their own, twice a second"), func(ctx context.Context) string {
			return writeTheWorst(ctx, tenants)
		}},
		// They are evaluated until they have cost what those of a pod may. Longer texts cost more sooner.
		attack{fmt.Sprint("pods for the worst templates of a tenant, ", clients, " clients"), func(ctx context.Context) string {
			var turn atomic.Int64
			return post(ctx, clients, func() string { return long([]int{300, 3_000, 25_000, 250_000}[turn.Add(1)%4]) })
		}})
	if thorough {
		attacks = append(attacks,
			attack{"12 dry runs of 230,000 variables", func(ctx context.Context) string { return create(ctx, n, 12, withVariables(230_000)) }},
			attack{"4 dry runs of 230,000 variables and 2,000 connections at once", func(ctx context.Context) string {
				go hold(ctx, t, 2000, replica.Serve.String(), unfinished(65_000), config)
				return create(ctx, n, 4, withVariables(230_000))
			}})
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			resetPeak(t, replica.PID)
			ctx, end := context.WithTimeout(t.Context(), lasting)
			defer end()
			ended := make(chan string, 1)
			go func() { ended <- a.run(ctx) }()
			var took []time.Duration
			retried := 0
			began := time.Now()
			for {
				start := time.Now()
				status, answer := review(t, r, small)
				for ; status == http.StatusServiceUnavailable && time.Since(start) < 10*time.Second; retried++ {
					time.Sleep(20 * time.Millisecond) // sooner than an API server, which waits a second
					status, answer = review(t, r, small)
				}
				if status != 200 || !strings.Contains(answer, `"patch"`) {
					t.Errorf("a small review is answered with %d %.300s", status, answer)
				}
				took = append(took, time.Since(start))
				select {
				case outcome := <-ended:
					slices.Sort(took)
					peak := peakMiB(t, replica.PID)
					t.Attr("attack", fmt.Sprintf("%s: peak %d MiB, %.1f s, %d small reviews p50 %s p99 %s, %d tried again %s", a.name, peak, time.Since(began).Seconds(),
						len(took), took[len(took)/2].Round(100*time.Microsecond), took[len(took)*99/100].Round(100*time.Microsecond), retried, outcome))
					if peak > mostMiB {
						t.Errorf("the process took %d MiB; allowed are %d", peak, mostMiB)
					}
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	if now := shared.Replicas(ground.Namespace); len(now) != 1 || now[0].PID != replica.PID {
		t.Errorf("Pillion was %+v, and is %+v now", replica, now)
	}
}

func TestTheWebhookSpeaksHTTP1Only(t *testing.T) {
	t.Parallel()
	replica := shared.Replicas(ground.Namespace)[0]
	config := newReviewer(t, replica).Transport.TLSClientConfig
	config.NextProtos = []string{"h2", "http/1.1"}
	conn, err := tls.Dial("tcp", replica.Serve.String(), config)
	expectNoError(t, err)
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("the protocol is %q, want http/1.1", got)
	}
}

// resetPeak has the kernel forget a process's peak of resident memory.
func resetPeak(t *testing.T, pid int) {
	t.Helper()
	expectNoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
}

// peakMiB is a process's peak of resident memory since the last resetPeak.
func peakMiB(t *testing.T, pid int) int {
	t.Helper()
	usage, err := measure.UsageOf(pid)
	expectNoError(t, err)
	return int(usage.Peak >> 20)
}
