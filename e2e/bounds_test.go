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
func hold(ctx context.Context, n int, address, text string, config *tls.Config) {
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

// attacked is what attacks are for. Thorough are those of `make attacks`, where the API server, too, is brought to
// its limits.
type attacked struct {
	t        *testing.T
	replica  ground.Replica
	reviewer *measure.Reviewer
	thorough bool
	clients  int
}

// create has clients create the pod by dry run. The API server itself takes seconds for a large one.
func (a *attacked) create(in *namespace, clients int, pod *corev1.Pod) (outcome string) {
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	said := map[string]int{}
	many(clients, func(int) {
		out, err := in.client.CoreV1().Pods(in.name).Create(ctx, pod, dryRun)
		word := "injected"
		switch {
		case err != nil && strings.Contains(err.Error(), "TemplateTooExpensive"):
			word = "refused as too expensive"
		case err != nil:
			word = fmt.Sprintf("refused: %.200s", err)
		case len(out.Spec.InitContainers) == 0:
			word = "LET THROUGH"
			if !a.thorough { // an API server that needs ten seconds for itself does not wait
				a.t.Errorf("a pod of %d variables and %d containers passed without its sidecar", len(pod.Spec.Containers[0].Env), len(pod.Spec.Containers))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		said[word]++
	})
	return fmt.Sprint(said)
}

// send has clients post reviews to a path until ctx ends.
func (a *attacked) send(ctx context.Context, clients int, path string, body func() string) (outcome string) {
	var mu sync.Mutex
	said := map[int]int{}
	many(clients, func(int) {
		for ctx.Err() == nil {
			status, _, err := a.reviewer.Post(ctx, path, 30*time.Second, strings.NewReader(body()))
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

// hold opens connections that write text, and keeps them.
func (a *attacked) hold(ctx context.Context, n int, text string) (outcome string) {
	hold(ctx, n, a.replica.Serve.String(), text, a.reviewer.Transport.TLSClientConfig)
	return ""
}

// unfinished is a review that lacks the last byte of its body.
func unfinished(n int) string {
	return fmt.Sprintf("POST /mutate/requested HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n+1, strings.Repeat(" ", n))
}

// ofSizes are the attacks by large reviews and pods, in a namespace that asks for one template, and in one that asks
// for three.
func (a *attacked) ofSizes(one, three *namespace) []attack {
	variables, containers := withVariables(230_000), newPod("containers", nil)
	for i := range 8000 {
		containers.Spec.Containers = append(containers.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "x"})
	}
	objects := `,"future":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 7_300_000/8), ",") + `]`
	attacks := []attack{
		{"small reviews only", func(ctx context.Context) string { <-ctx.Done(); return "" }},
		{fmt.Sprint(a.clients, " dry runs of 230,000 variables"), func(context.Context) string { return a.create(one, a.clients, variables) }},
		{fmt.Sprint(3*a.clients, " dry runs of 8,000 containers, three templates"), func(context.Context) string { return a.create(three, 3*a.clients, containers) }},
		{"7.3 MB of small objects, 4 clients", func(ctx context.Context) string {
			return a.send(ctx, 4, "/mutate/requested", func() string { return reviewIn(one.name, objects) })
		}},
		{"previews of 7.3 MB, 50 KB and 400 bytes, 32 clients", func(ctx context.Context) string {
			var turn atomic.Int64
			return a.send(ctx, 32, "/preview", func() string {
				return reviewIn(one.name, []string{objects, objects[:50_010] + "]", ""}[turn.Add(1)%3])
			})
		}},
	}
	if a.thorough {
		attacks = append(attacks,
			attack{"12 dry runs of 230,000 variables", func(context.Context) string { return a.create(one, 12, variables) }},
			attack{"4 dry runs of 230,000 variables and 2,000 connections at once", func(ctx context.Context) string {
				go a.hold(ctx, 2000, unfinished(65_000))
				return a.create(one, 4, variables)
			}})
	}
	return attacks
}

// ofConnections are the attacks by many connections and slow ones.
func (a *attacked) ofConnections() []attack {
	return []attack{
		{"2,000 connections of 65,000 bytes", func(ctx context.Context) string { return a.hold(ctx, 2000, unfinished(65_000)) }},
		{"2,000 connections of 60,000 bytes of header", func(ctx context.Context) string {
			return a.hold(ctx, 2000, "POST /mutate/requested HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 60_000))
		}},
		// Of the small ones, each counts as slow at another moment.
		{"10 clients that stall in 66,000 bytes, and 10 in 28 MB", func(ctx context.Context) string {
			many(20, func(i int) {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				stall(ctx, []int{66_000, 28_000_000}[i/10], a.replica.Serve.String(), a.reviewer.Transport.TLSClientConfig)
			})
			<-ctx.Done()
			return ""
		}},
		{"5,000 connections to the admin port", func(ctx context.Context) string {
			hold(ctx, 5000, a.replica.Admin.String(), "GET /metrics HTTP/1.1\r\n", nil)
			return ""
		}},
		{"320 clients in namespaces that do not exist", func(ctx context.Context) string {
			return a.send(ctx, 320, "/mutate/requested", func() string { return reviewIn(unique("none"), "") })
		}},
	}
}

// ofTenants are the attacks by tenants who write the worst templates that they may.
func (a *attacked) ofTenants() []attack {
	tenants := make([]*namespace, 4)
	if a.thorough {
		tenants = make([]*namespace, 40)
	}
	for i := range tenants {
		tenants[i] = newNamespace(a.t, nil, nil)
	}
	theirs := newNamespaceOfTheWorst(a.t)
	long := func(n int) string {
		return strings.Replace(reviewIn(theirs.name, ""), `"metadata":{`, `"metadata":{"annotations":{"text":"`+strings.Repeat("a", n)+`"},`, 1)
	}
	if status, answer := review(a.t, a.reviewer, long(300)); status != 200 || !strings.Contains(answer, "the expressions of all templates of the pod together cost more than") {
		a.t.Fatalf("the worst templates are not evaluated until they cost what they may: %d %.300s", status, answer)
	}
	return []attack{
		{fmt.Sprint(len(tenants), " tenants who write the worst twenty templates of their own, twice a second"), func(ctx context.Context) string {
			return writeTheWorst(ctx, tenants)
		}},
		// They are evaluated until they have cost what those of a pod may. Longer texts cost more sooner.
		{fmt.Sprint("pods for the worst templates of a tenant, ", a.clients, " clients"), func(ctx context.Context) string {
			var turn atomic.Int64
			return a.send(ctx, a.clients, "/mutate/requested", func() string { return long([]int{300, 3_000, 25_000, 250_000}[turn.Add(1)%4]) })
		}},
	}
}

// Each attack goes on for a second, in `make attacks` for as long as ATTACK says.
func TestNoLoadTakesTheProcessPastItsMemory(t *testing.T) {
	backToOne(t)
	replica := shared.Replicas(ground.Namespace)[0]
	lasting, a := time.Second, &attacked{t: t, replica: replica, reviewer: newReviewer(t, replica), clients: 2}
	if text := os.Getenv("ATTACK"); text != "" {
		var err error
		lasting, err = time.ParseDuration(text)
		expectNoError(t, err)
		a.thorough, a.clients = true, 4
	}
	n, busy := newNamespace(t, asking("fluent-bit"), nil), newNamespace(t, asking("environment,fluent-bit,oauth2-proxy"), nil)
	injects(t, n, "fluent-bit")
	for _, each := range slices.Concat(a.ofSizes(n, busy), a.ofConnections(), a.ofTenants()) {
		t.Run(each.name, func(t *testing.T) { a.withstands(t, each, lasting, reviewIn(n.name, "")) })
	}
	if now := shared.Replicas(ground.Namespace); len(now) != 1 || now[0].PID != replica.PID {
		t.Errorf("Pillion was %+v, and is %+v now", replica, now)
	}
}

// withstands runs the attack. Meanwhile small reviews are answered, and the process takes no more memory than it may.
func (a *attacked) withstands(t *testing.T, of attack, lasting time.Duration, small string) {
	resetPeak(t, a.replica.PID)
	ctx, end := context.WithTimeout(t.Context(), lasting)
	defer end()
	ended := make(chan string, 1)
	go func() { ended <- of.run(ctx) }()
	var took []time.Duration
	retried := 0
	began := time.Now()
	for {
		start := time.Now()
		status, answer := review(t, a.reviewer, small)
		for ; status == http.StatusServiceUnavailable && time.Since(start) < 10*time.Second; retried++ {
			time.Sleep(20 * time.Millisecond) // sooner than an API server, which waits a second
			status, answer = review(t, a.reviewer, small)
		}
		if status != 200 || !strings.Contains(answer, `"patch"`) {
			t.Errorf("a small review is answered with %d %.300s", status, answer)
		}
		took = append(took, time.Since(start))
		select {
		case outcome := <-ended:
			slices.Sort(took)
			peak := peakMiB(t, a.replica.PID)
			t.Attr("attack", fmt.Sprintf("%s: peak %d MiB, %.1f s, %d small reviews p50 %s p99 %s, %d tried again %s", of.name, peak, time.Since(began).Seconds(),
				len(took), took[len(took)/2].Round(100*time.Microsecond), took[len(took)*99/100].Round(100*time.Microsecond), retried, outcome))
			if peak > mostMiB {
				t.Errorf("the process took %d MiB; allowed are %d", peak, mostMiB)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
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
