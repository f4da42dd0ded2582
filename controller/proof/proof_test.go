package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

const namespace = "pillion-system-proof"

var pods = schema.GroupResource{Resource: "pods"}

// injected is what a working cluster answers.
func injected(pod *corev1.Pod) (*corev1.Pod, error) {
	pod.Annotations["pillion.dev/status"] = "{}"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: Template})
	return pod, nil
}

// bare is what a cluster answers that does not call Pillion.
func bare(pod *corev1.Pod) (*corev1.Pod, error) { return pod, nil }

// refusing is what a cluster answers that refuses the pod.
func refusing(err error) func(*corev1.Pod) (*corev1.Pod, error) {
	return func(*corev1.Pod) (*corev1.Pod, error) { return nil, err }
}

// cluster is an API server that a prover asks.
type cluster struct {
	mu     sync.Mutex
	answer func(*corev1.Pod) (*corev1.Pod, error)
	ready  error
	exists bool
	asked  []time.Time

	log     bytes.Buffer
	changes []Enforcement
}

func (c *cluster) set(answer func(*corev1.Pod) (*corev1.Pod, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// times returns how often the cluster was asked.
func (c *cluster) times() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.asked) }

func forbidden(why string) error { return apierrors.NewForbidden(pods, "", errors.New(why)) }

// lacking is the answer to a request for which the right is missing.
var lacking = forbidden(`User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the namespace "proof"`)

// start runs a prover until the test ends. Use it in a synctest bubble.
func start(t *testing.T, c *cluster, takeBackAfter time.Duration) *Prover {
	t.Helper()
	return startWith(t, c, Options{TakeBackAfter: takeBackAfter})
}

func startWith(t *testing.T, c *cluster, o Options) *Prover {
	t.Helper()
	p := New(Options{
		Prefix: "pillion.dev", Namespace: namespace, TakeBackAfter: o.TakeBackAfter, Verifies: o.Verifies, Timeout: 15 * time.Second,
		Ready: func() error { c.mu.Lock(); defer c.mu.Unlock(); return c.ready },
		Create: func(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked = append(c.asked, time.Now())
			return c.answer(pod)
		},
		Exists: func() bool { return c.exists },
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	})
	p.OnChange(func() { c.changes = append(c.changes, p.Enforcement()) })
	runtest.Start(t, p.Run)
	return p
}

func TestProofsBeginWhenTheReplicaIsReadyAndFollowEachOtherSlowlyOnceOneSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{answer: injected, ready: errors.New("certificates: none")}
		p := start(t, c, 0)
		time.Sleep(time.Minute)
		if c.times() != 0 || p.Proven() {
			t.Errorf("before the replica is ready: %d proofs, proven=%t", c.times(), p.Proven())
		}
		c.mu.Lock()
		c.ready = nil
		c.mu.Unlock()
		time.Sleep(time.Second)
		if c.times() != 1 || !p.Proven() || p.Err() != nil {
			t.Errorf("soon after it is ready: %d proofs, proven=%t, %v", c.times(), p.Proven(), p.Err())
		}
		time.Sleep(10 * time.Minute)
		if n := c.times(); n < 17 || n > 26 {
			t.Errorf("%d proofs in ten minutes, want one in about 30 s", n)
		}
		gaps := map[time.Duration]bool{}
		for i := range c.asked[1:] {
			gaps[c.asked[i+1].Sub(c.asked[i])] = true
		}
		if len(gaps) < 5 {
			t.Errorf("the times between proofs are %v, want that replicas do not keep step", gaps)
		}
		if len(c.changes) != 1 || c.changes[0] != (Enforcement{Enforce: true}) {
			t.Errorf("the changes are %v, want one", c.changes)
		}
	})
}

func TestProofsThatFailFollowEachOtherQuicklyAndThenEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{answer: bare}
		p := start(t, c, 0)
		time.Sleep(5 * time.Second)
		if n := c.times(); n < 3 || n > 6 {
			t.Errorf("%d proofs in the first five seconds, want about one in a second", n)
		}
		time.Sleep(time.Minute)
		before := c.times()
		time.Sleep(100 * time.Second)
		if n := c.times() - before; n != 10 {
			t.Errorf("%d proofs in 100 seconds of failures, want 10", n)
		}
		c.set(injected)
		time.Sleep(latest + time.Millisecond)
		if !p.Proven() {
			t.Error("not proven after it works again")
		}
	})
}

func TestOneProofThatFailsIsNoNewsAndThreeInARowAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{answer: injected}
		p := start(t, c, 0)
		time.Sleep(time.Second)
		for range 20 { // each time one fails, or two
			for range enough - 1 {
				c.set(bare)
				for n := c.times(); c.times() == n; {
					time.Sleep(100 * time.Millisecond)
				}
				if !p.Proven() || p.Err() == nil {
					t.Fatalf("after a proof that fails: proven=%t, %v", p.Proven(), p.Err())
				}
			}
			c.set(injected)
			time.Sleep(time.Minute)
			if p.Err() != nil {
				t.Fatalf("after one that succeeds: %v", p.Err())
			}
		}
		if len(c.changes) != 1 || strings.Contains(c.log.String(), "fails") {
			t.Errorf("the changes are %v, want one; the log:\n%s", c.changes, c.log.String())
		}
		c.set(bare)
		time.Sleep(time.Minute)
		if p.Proven() || p.Err() == nil {
			t.Errorf("a minute after it broke: proven=%t, %v", p.Proven(), p.Err())
		}
		if p.Enforcement().TakeBack {
			t.Error("enforcement is taken back, and nobody asked for that")
		}
	})
}

func TestEnforcementIsTakenBackAfterTheTimeThatTheInstallerSaysAndNotBefore(t *testing.T) {
	t.Parallel()
	const after = 5 * time.Minute
	for name, test := range map[string]struct {
		answer func(*corev1.Pod) (*corev1.Pod, error)
		taken  bool
	}{
		"pods are not injected": {bare, true},
		"the webhook fails":     {refusing(apierrors.NewInternalError(errors.New(`failed calling webhook "enforced.pillion.dev": connection refused`))), true},
		"Pillion refuses":       {refusing(&apierrors.StatusError{ErrStatus: *reason.UnknownTemplate.Refusal("no")}), true},
		// Whoever may delete a namespace, or a Role, turns nothing off.
		"the namespace is gone":                     {refusing(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)), false},
		"the right is gone":                         {refusing(lacking), false},
		"the API server does not answer":            {refusing(errors.New("connection refused")), false},
		"the API server says that it is overloaded": {refusing(apierrors.NewTooManyRequests("later", 1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{answer: injected, exists: true}
				p := start(t, c, after)
				time.Sleep(time.Minute)
				c.set(test.answer)
				for n := c.times(); c.times() == n; {
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(after - time.Second)
				if got := p.Enforcement(); got != (Enforcement{}) {
					t.Errorf("a second too early it is %+v", got)
				}
				time.Sleep(2 * time.Second)
				if got := p.Enforcement(); got != (Enforcement{TakeBack: test.taken}) {
					t.Errorf("after %s it is %+v, want TakeBack=%t", after, got, test.taken)
				}
				c.set(injected)
				time.Sleep(latest + time.Second)
				if got := p.Enforcement(); got != (Enforcement{Enforce: true}) {
					t.Errorf("when it works again it is %+v", got)
				}
			})
		})
	}
}

func TestEveryFailureHasANameAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(pods, "", errors.New("unable to create new content in namespace because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, test := range []struct {
		name   string
		answer func(*corev1.Pod) (*corev1.Pod, error)
		exists bool
		want   Outcome
		says   string
	}{
		{"nobody calls Pillion", bare, true, NotInjected, "kubectl get mutatingwebhookconfigurations"},
		{"a record without the sidecar", func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Annotations["pillion.dev/status"] = "{}"
			return pod, nil
		}, true, NotInjected, "enforced.pillion.dev"},
		{"a sidecar without the record", func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Spec.InitContainers = []corev1.Container{{Name: Template}}
			return pod, nil
		}, true, NotInjected, "enforced.pillion.dev"},
		{"Pillion does not answer", refusing(apierrors.NewInternalError(errors.New(`failed calling webhook "enforced.pillion.dev": context deadline exceeded`))), true, WebhookFailed, "pillion status"},
		{"another webhook does not answer", refusing(apierrors.NewInternalError(errors.New(`failed calling webhook "pods.example.com": context deadline exceeded`))), true, OtherWebhookFailed, "another webhook, pods.example.com,"},
		{"the token is not accepted", refusing(apierrors.NewUnauthorized("Unauthorized")), true, Unauthorized, "does not accept Pillion's token"},
		{"Pillion refuses", refusing(&apierrors.StatusError{ErrStatus: *reason.Conflict.Refusal("two values")}), true, RefusedByPillion, "Conflict"},
		{"a quota refuses", refusing(apierrors.NewForbidden(pods, "", errors.New("exceeded quota"))), true, RefusedByOthers, "exceeded quota"},
		{"the admission policy of a required template refuses", refusing(apierrors.NewForbidden(pods, "", errors.New("ValidatingAdmissionPolicy 'required-mesh.pillion.dev' with binding 'required-mesh.pillion.dev' denied request: x"))), true, RefusedByOthers, "for the cause run: pillion check"},
		{"another policy refuses", refusing(apierrors.NewForbidden(pods, "", errors.New("ValidatingAdmissionPolicy 'required-mesh.example.com' with binding 'x' denied request: x"))), true, RefusedByOthers, "exclude this namespace from the policy or webhook that refuses it"},
		{"an invalid pod", refusing(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "", nil)), true, RefusedByOthers, "not by Pillion"},
		{"no right", refusing(lacking), true, PermissionMissing, "kubectl -n " + namespace + " create role"},
		{"neither namespace nor right", refusing(lacking), false, NamespaceMissing, "kubectl create namespace " + namespace},
		{"no namespace", refusing(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)), false, NamespaceMissing, "helm upgrade"},
		{"a namespace that goes", refusing(terminating), true, NamespaceMissing, "being deleted"},
		{"no ServiceAccount", refusing(apierrors.NewForbidden(pods, "", fmt.Errorf("error looking up service account %s/default: not found", namespace))), true, ServiceAccountMissing, "create serviceaccount default"},
		{"no API server", refusing(errors.New("connection refused")), true, NoAnswer, "connection refused"},
		{"an API server that fails", refusing(apierrors.NewInternalError(errors.New("etcd"))), true, NoAnswer, "etcd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{answer: test.answer, exists: test.exists}
				p := start(t, c, 0)
				time.Sleep(time.Minute)
				var failure *Failure
				if err := p.Err(); !errors.As(err, &failure) || failure.Outcome != test.want || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), namespace) {
					t.Errorf("it fails with %v, want %s, with %q", err, test.want, test.says)
				}
				if n := strings.Count(c.log.String(), "reason="+string(test.want)); n != 1 {
					t.Errorf("the log has the reason %d times, want once:\n%s", n, c.log.String())
				}
				want := "# HELP pillion_proof_failing 1 while the last proof failed, by outcome; the log says what to do.\n# TYPE pillion_proof_failing gauge\n" +
					`pillion_proof_failing{outcome="` + string(test.want) + "\"} 1\n"
				if err := testutil.CollectAndCompare(p, strings.NewReader(want), "pillion_proof_failing"); err != nil {
					t.Error(err)
				}
				c.set(injected)
				time.Sleep(time.Minute)
				if !p.Proven() || p.Err() != nil || !strings.Contains(c.log.String(), "proven") {
					t.Errorf("after it works: proven=%t, %v; the log:\n%s", p.Proven(), p.Err(), c.log.String())
				}
				if n := testutil.CollectAndCount(p, "pillion_proof_failing"); n != 0 {
					t.Error("the metric says that it still fails")
				}
			})
		})
	}
}

// Whatever answers come, the state follows from the answers since the last success alone.
func TestTheStateFollowsFromTheLastAnswers(t *testing.T) {
	t.Parallel()
	for range 50 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		p := New(Options{Logger: slog.New(slog.DiscardHandler), Namespace: namespace, TakeBackAfter: time.Nanosecond})
		row, proven, showed := 0, false, false
		for i := range 200 {
			failure := []*Failure{nil, {Outcome: NotInjected}, {Outcome: WebhookFailed}, {Outcome: NoAnswer}, {Outcome: NamespaceMissing}}[random.IntN(5)]
			wait := p.take(time.Now().Add(-time.Hour), failure)
			if failure == nil {
				row, proven, showed = 0, true, false
			} else {
				row++
				showed = showed || failure.Outcome.broken() && row >= enough
			}
			want := Enforcement{Enforce: proven && row < enough, TakeBack: showed}
			if row >= enough {
				proven = false
			}
			if got := p.Enforcement(); got != want {
				t.Fatalf("seed %d, answer %d (%v): %+v, want %+v", seed, i, failure, got, want)
			}
			if wait <= 0 || wait > interval*6/5 || failure != nil && wait > latest {
				t.Fatalf("seed %d, answer %d: the next proof comes after %s", seed, i, wait)
			}
		}
	}
}

func TestWithoutAProverNothingIsProven(t *testing.T) {
	t.Parallel()
	var p *Prover
	if p.Enforcement() != (Enforcement{}) || p.Proven() {
		t.Error("a prover that is none says something")
	}
	want := "# HELP pillion_enforcement_proven 1 if a proof has shown that API servers have pods injected, so that namespaces may be enforced; otherwise 0.\n" +
		"# TYPE pillion_enforcement_proven gauge\npillion_enforcement_proven 0\n"
	if err := testutil.CollectAndCompare(p, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestTheTemplateCompilesUnderEveryPrefixForItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"pillion.dev", "side.example.com"} {
		template, warnings, err := templates.Compile(Manifest(prefix, namespace), templates.Options{Prefix: prefix})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%s: %v %v", prefix, err, warnings)
		}
		if template.Name() != Template {
			t.Errorf("its name is %s", template.Name())
		}
		for name, want := range map[string]bool{namespace: true, "shop": false} {
			if got := template.AvailableTo(map[string]string{"kubernetes.io/metadata.name": name}); got != want {
				t.Errorf("in namespace %s it is available: %t, want %t", name, got, want)
			}
		}
	}
}

// Whatever is said of verification, namespaces are enforced as long as pods come back injected.
func TestABarePodThatIsNotRefusedIsSaidAndChangesNoEnforcement(t *testing.T) {
	t.Parallel()
	refusal := refusing(&apierrors.StatusError{ErrStatus: *reason.RequiredMissing.Refusal("template " + RequiredTemplate + " is required")})
	for name, c := range map[string]struct {
		answer func(*corev1.Pod) (*corev1.Pod, error)
		says   string
	}{
		"created":                           {bare, "required-enforced.pillion.dev"},
		"refused by another template":       {refusing(&apierrors.StatusError{ErrStatus: *reason.RequiredMissing.Refusal("template mesh is required")}), "template mesh"},
		"refused by others":                 {refusing(apierrors.NewForbidden(pods, "", errors.New("exceeded quota"))), "cannot be told"},
		"the verifying entry has no answer": {refusing(apierrors.NewInternalError(errors.New(`failed calling webhook "required-enforced.pillion.dev": refused`))), "cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answering := func(second func(*corev1.Pod) (*corev1.Pod, error)) func(*corev1.Pod) (*corev1.Pod, error) {
					return func(pod *corev1.Pod) (*corev1.Pod, error) {
						if pod.Labels[bareLabel] == "" {
							return injected(pod)
						}
						return second(pod)
					}
				}
				cluster := &cluster{answer: answering(c.answer)}
				p := startWith(t, cluster, Options{Verifies: true})
				said := func(want string) {
					t.Helper()
					if err := testutil.CollectAndCompare(p, strings.NewReader(want), "pillion_proof_failing"); err != nil || !p.Proven() || p.Err() != nil {
						t.Errorf("proven %t, %v: %v", p.Proven(), p.Err(), err)
					}
				}
				failing := "# HELP pillion_proof_failing 1 while the last proof failed, by outcome; the log says what to do.\n# TYPE pillion_proof_failing gauge\npillion_proof_failing{outcome=\"NotVerified\"} 1\n"
				time.Sleep(time.Minute)
				said(failing)
				if n := strings.Count(cluster.log.String(), "reason=NotVerified"); n != 1 || !strings.Contains(cluster.log.String(), c.says) {
					t.Errorf("the log:\n%s", cluster.log.String())
				}
				cluster.set(answering(refusal))
				time.Sleep(latest + time.Second)
				said("")
				if !strings.Contains(cluster.log.String(), "verified again") {
					t.Errorf("the log:\n%s", cluster.log.String())
				}
				cluster.set(answering(c.answer))
				time.Sleep(time.Minute)
				said(failing)
			})
		})
	}
}
