package soak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
	"github.com/pillion-dev/pillion/e2e/rotation"
)

// A fault is done once for each step of a schedule that names it.
type fault struct {
	name, on string
	// do does it, and returns when it has ended. after clears up at the end of the round.
	do, after func(context.Context, *run, Step) error
	// What it does besides the windows of docs/concepts/faults.md: see Effect. Zero: never.
	denied, stale, elsewhere time.Duration
}

// kinds of faults. docs/concepts/faults.md has a row for each.
var kinds = []fault{
	{name: "kill-one", on: "replicas", do: kill(false)},
	{name: "kill-all", on: "replicas", do: kill(true)},
	{name: "stop-one", on: "replicas", do: stopOne, stale: settle},
	{name: "slow-one", on: "replicas", do: slow(false), stale: settle},
	{name: "slow-all", on: "replicas", do: slow(true), stale: settle},
	{name: "clock-off", on: "replicas", do: turnClock},
	{name: "ca-secret-damaged", on: "secret", do: damageSecret},
	{name: "cabundle-foreign", on: "configuration", do: foreignBundles},
	{name: "entries-edited", on: "configuration", do: editEntries, denied: settle},
	{name: "etcd-restart", on: "etcd", do: restartEtcd, stale: 2 * settle, elsewhere: 10 * time.Second},
	{name: "etcd-slow", on: "etcd", do: slowEtcd, stale: 2 * settle, elsewhere: 5 * time.Second},
	{name: "api-server-killed", on: "api-servers", do: killAPIServer, stale: 2 * settle, elsewhere: 5 * time.Second},
	{name: "api-server-stopped", on: "api-servers", do: stopAPIServer, stale: 2 * settle, elsewhere: 5 * time.Second},
	{name: "api-server-slow", on: "api-servers", do: slowAPIServer, stale: 2 * settle, elsewhere: 5 * time.Second},
	{name: "api-server-late", on: "api-servers", do: delayAPIServer, stale: 2 * settle},
	{name: "rights-taken", on: "rights", do: takeRights, stale: 15 * time.Second},
	{name: "policies-deleted", on: "policies", do: deletePolicies},
	{name: "label-fought", on: "namespaces", do: fightLabel},
	{name: "namespace-recreated", on: "namespaces", do: recreateNamespace, elsewhere: 5 * time.Second},
	{name: "templates-edited", on: "templates", do: editTemplates},
	{name: "canary-wrong", on: "templates", do: startCanary, after: removeCanary, denied: settle},
	{name: "upgrade", on: "helm", do: upgrade, stale: settle},
}

func kindOf(s Step) fault {
	return kinds[slices.IndexFunc(kinds, func(f fault) bool { return f.name == s.Name })]
}

func kill(all bool) func(context.Context, *run, Step) error {
	return func(ctx context.Context, r *run, s Step) error { return r.signal(syscall.SIGKILL, r.replicas(s, all)) }
}

// stopOne stops a replica. The kubelet ends it.
func stopOne(_ context.Context, r *run, s Step) error {
	return r.signal(syscall.SIGSTOP, r.replicas(s, false))
}

// turnClock ends replicas, and starts them with a clock that is an hour ahead or behind; then takes that
// back.
func turnClock(ctx context.Context, r *run, s Step) error {
	if r.clocks == "" {
		return errors.New("there is no Pillion with a clock that is an hour off")
	}
	off := "ahead"
	if s.Pick/4%2 == 0 {
		off = "behind"
	}
	restart := kill(s.Pick/2%2 == 0)
	r.g.UsePillion(filepath.Join(r.clocks, off, "pillion-webhook"))
	err := restart(ctx, r, s)
	if err == nil {
		err = measure.Sleep(ctx, s.Hold)
	}
	r.g.UsePillion(r.checkout.Webhook())
	return errors.Join(err, restart(ctx, r, s))
}

// replicas are all that run, or one of them.
func (r *run) replicas(s Step, all bool) []ground.Replica {
	running := r.g.Replicas(ground.Namespace)
	if n := uint64(len(running)); !all && n > 0 {
		return running[s.Pick%n:][:1]
	}
	return running
}

func (r *run) signal(signal syscall.Signal, replicas []ground.Replica) error {
	for _, replica := range replicas {
		if err := syscall.Kill(replica.PID, signal); err != nil && err != syscall.ESRCH { // another fault may have ended it
			return fmt.Errorf("sending %s to %s: %w", signal, replica.Name, err)
		}
	}
	return nil
}

// What is slow is stopped for most of the time, a moment each.
const stopped, running = 300 * time.Millisecond, 100 * time.Millisecond

func (r *run) slow(ctx context.Context, s Step, signal func(syscall.Signal) error) error {
	for end := time.Now().Add(s.Hold); time.Now().Before(end); {
		if err := signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := measure.Sleep(ctx, stopped)
		if err := signal(syscall.SIGCONT); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if err := measure.Sleep(ctx, running); err != nil {
			return err
		}
	}
	return nil
}

func slow(all bool) func(context.Context, *run, Step) error {
	return func(ctx context.Context, r *run, s Step) error {
		replicas := r.replicas(s, all)
		return r.slow(ctx, s, func(signal syscall.Signal) error { return r.signal(signal, replicas) })
	}
}

func slowEtcd(ctx context.Context, r *run, s Step) error { return r.slow(ctx, s, r.g.SignalEtcd) }

func restartEtcd(ctx context.Context, r *run, _ Step) error { return r.g.RestartEtcd(ctx) }

func (r *run) apiServer(s Step) *ground.APIServer {
	all := r.g.APIServers()
	return all[s.Pick%uint64(len(all))]
}

func killAPIServer(ctx context.Context, r *run, s Step) error {
	server := r.apiServer(s)
	server.Stop(ctx, 0)
	if err := measure.Sleep(ctx, s.Hold); err != nil {
		return err
	}
	return server.Start(ctx)
}

// stopAPIServer has one hang: connections stand, and nothing is answered.
func stopAPIServer(ctx context.Context, r *run, s Step) error {
	server := r.apiServer(s)
	return errors.Join(server.Signal(syscall.SIGSTOP), measure.Sleep(ctx, s.Hold), server.Signal(syscall.SIGCONT))
}

func slowAPIServer(ctx context.Context, r *run, s Step) error {
	return r.slow(ctx, s, func(signal syscall.Signal) error { return r.apiServer(s).Signal(signal) })
}

// lag is how much later than others an API server hears what is written.
const lag = time.Second

func delayAPIServer(ctx context.Context, r *run, s Step) error {
	server := r.apiServer(s)
	defer server.Lag(0)
	server.Lag(lag)
	return measure.Sleep(ctx, s.Hold)
}

func damageSecret(ctx context.Context, r *run, s Step) error {
	return r.again(ctx, func(ctx context.Context) error {
		_, err := rotation.DamageSecret(ctx, r.client, int(s.Pick%2))
		return err
	})
}

// configure changes the entries of the mutating webhook configuration.
func (r *run) configure(ctx context.Context, change func(i int, w *admissionregistrationv1.MutatingWebhook)) error {
	configurations := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return r.again(ctx, func(ctx context.Context) error {
		c, err := configurations.Get(ctx, ground.Release, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range c.Webhooks {
			change(i, &c.Webhooks[i])
		}
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
}

func foreignBundles(ctx context.Context, r *run, _ Step) error {
	foreign, err := ground.NewAuthority() // has signed nothing here
	if err != nil {
		return err
	}
	return r.again(ctx, func(ctx context.Context) error {
		_, err := rotation.SetBundles(ctx, r.client, foreign.PEM())
		return err
	})
}

// editEntries edits all entries in one respect, and takes that back.
func editEntries(ctx context.Context, r *run, s Step) error {
	edit := []func(*admissionregistrationv1.MutatingWebhook){
		func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Ignore },
		func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Fail },
		func(w *admissionregistrationv1.MutatingWebhook) { *w.TimeoutSeconds = 1 },
		func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
		},
	}[s.Pick%4]
	if err := r.configure(ctx, func(_ int, w *admissionregistrationv1.MutatingWebhook) { edit(w) }); err != nil {
		return err
	}
	err := measure.Sleep(ctx, s.Hold)
	if err == nil {
		err = r.configure(ctx, func(i int, w *admissionregistrationv1.MutatingWebhook) {
			was := r.chart[i].DeepCopy()
			w.FailurePolicy, w.TimeoutSeconds, w.Rules = was.FailurePolicy, was.TimeoutSeconds, was.Rules
		})
	}
	return err
}

func takeRights(ctx context.Context, r *run, s Step) error {
	group := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return r.without(ctx, s, group.WithResource([]string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"}[s.Pick%4]))
}

func deletePolicies(ctx context.Context, r *run, s Step) error {
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return r.without(ctx, s, group.WithResource([]string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}[s.Pick%2]))
}

// without deletes the release's objects of a resource, and makes them again as they were.
func (r *run) without(ctx context.Context, s Step, resource schema.GroupVersionResource) error {
	var objects []unstructured.Unstructured
	err := r.again(ctx, func(ctx context.Context) error {
		list, err := r.dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + ground.Release})
		if err == nil {
			objects = list.Items
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return fmt.Errorf("the release has no %s", resource.Resource)
	}
	for _, o := range objects {
		if err := r.again(ctx, func(ctx context.Context) error {
			return r.dynamic.Resource(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}); err != nil {
			return err
		}
	}
	if err := measure.Sleep(ctx, s.Hold); err != nil {
		return err
	}
	for _, o := range objects {
		o.SetResourceVersion("")
		o.SetUID("")
		if err := r.again(ctx, func(ctx context.Context) error {
			_, err := r.dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, &o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // by an upgrade
				return nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// fightLabel has a tool write its idea of a namespace every two seconds: without Pillion's labels,
// or with one that lets pods through.
func fightLabel(ctx context.Context, r *run, s Step) error {
	name := namespaces[[]Kind{Enforced, Required}[s.Pick%2]]
	opens := s.Pick/2%2 == 1
	write := func(value string) error {
		return r.again(ctx, func(ctx context.Context) error {
			ns, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			delete(ns.Labels, injectionLabel)
			delete(ns.Labels, requiredLabel)
			if value != "" {
				ns.Labels[injectionLabel] = value
			}
			ns, err = r.client.CoreV1().Namespaces().Update(ctx, ns, metav1.UpdateOptions{FieldManager: "tool"})
			if err == nil {
				r.see(ns)
			}
			return err
		})
	}
	for end := time.Now().Add(s.Hold); time.Now().Before(end); {
		value := ""
		if opens {
			value = "enabled"
		}
		if err := write(value); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return write("")
}

func recreateNamespace(ctx context.Context, r *run, s Step) error {
	kind := []Kind{NeverAsked, Enabled, Enforced, Required}[s.Pick%4]
	if err := r.again(ctx, func(ctx context.Context) error {
		err := r.client.CoreV1().Namespaces().Delete(ctx, namespaces[kind], metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // an earlier attempt succeeded
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	r.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[kind]}})
	return r.makeNamespace(ctx, kind)
}

// editTemplates edits both templates every half second. The one that selects namespaces is required
// every other time, and at the end.
func editTemplates(ctx context.Context, r *run, s Step) error {
	required := false
	for end := time.Now().Add(s.Hold); time.Now().Before(end); required = !required {
		if err := r.edit(ctx, askedTemplate, ""); err != nil {
			return err
		}
		if err := r.edit(ctx, selectingTemplate, fmt.Sprintf(`"required":%v,`, required || s.Pick%2 == 0)); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return r.edit(ctx, selectingTemplate, `"required":true,`)
}

// startCanary gives half of the workloads a version that refuses their pods, and suspends it.
func startCanary(ctx context.Context, r *run, s Step) error {
	if err := r.apply(ctx, canary); err != nil {
		return err
	}
	if err := measure.Sleep(ctx, s.Hold); err != nil {
		return err
	}
	return r.again(ctx, func(ctx context.Context) error {
		_, err := r.dynamic.Resource(templateResource).Patch(ctx, canaryTemplate, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
		return err
	})
}

func removeCanary(ctx context.Context, r *run, _ Step) error {
	return r.again(ctx, func(ctx context.Context) error {
		return r.dynamic.Resource(templateResource).Delete(ctx, canaryTemplate, metav1.DeleteOptions{})
	})
}

// upgrade upgrades the release, and rolls that back.
func upgrade(ctx context.Context, r *run, s Step) error {
	err := r.helm(ctx, "upgrade", ground.Release, r.checkout.Chart(), "--reset-then-reuse-values", "--set", "log.level=debug")
	if err == nil {
		err = measure.Sleep(ctx, s.Hold)
	}
	if err == nil {
		err = r.helm(ctx, "rollback", ground.Release)
	}
	return err
}

// helm changes the release, and replaces the replicas by what it asks for then.
func (r *run) helm(ctx context.Context, args ...string) error {
	err := r.again(ctx, func(ctx context.Context) error {
		_, err := ground.Run(ctx, r.g, "helm", append(args, "-n", ground.Namespace)...)
		if err != nil && strings.Contains(err.Error(), "another operation") { // that was broken off
			_, _ = ground.Run(ctx, r.g, "helm", "rollback", ground.Release, "-n", ground.Namespace)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.again(ctx, func(context.Context) error { return r.g.Replace(ctx, ground.Namespace) })
}
