package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// soakFaults are done to a control plane at random. docs/concepts/faults.md has a row for each.
var soakFaults = []fault{
	{name: "kill-one", on: "replicas", do: kill(one)},
	{name: "kill-all", on: "replicas", do: kill(most)},
	{name: "stop-one", on: "replicas", do: stop(one), stale: settle},
	{name: "slow-one", on: "replicas", do: slowReplicas(one), stale: settle},
	{name: "slow-all", on: "replicas", do: slowReplicas(most), stale: settle},
	{name: "clock-off", on: "replicas", do: turnClock},
	{name: "ca-secret-damaged", on: "secret", do: damageSecret},
	{name: "cabundle-foreign", on: "configuration", do: foreignBundles},
	{name: "entries-edited", on: "configuration", do: editEntries, denied: map[namespaceKind]time.Duration{selected: settle}},
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
	// A replica without the new version of a required template refuses a pod that has it.
	{name: "templates-edited", on: "templates", do: editTemplates, denied: map[namespaceKind]time.Duration{selected: settle}},
	{name: "canary-wrong", on: "templates", do: startCanary, after: removeCanary, denied: ofThoseThatAsk(settle)},
	{name: "upgrade", on: "helm", do: upgradeAndBack, stale: settle},
}

// turnClock ends replicas, which start with a clock that is an hour ahead or behind, and then all of them
// once more, which start with the right one.
func turnClock(ctx context.Context, r *run, s step) error {
	if r.clocks == "" {
		return errors.New("there is no Pillion with a clock that is an hour off")
	}
	off, begin := "ahead", kill(one)
	if s.pick/4%2 == 0 {
		off = "behind"
	}
	if s.pick/2%2 == 0 {
		begin = kill(most)
	}
	r.plane.UsePillion(filepath.Join(r.clocks, off, "pillion-webhook"))
	err := begin(ctx, r, s)
	if err == nil {
		err = measure.Sleep(ctx, s.hold)
	}
	r.plane.UsePillion(r.checkout.Webhook())
	return errors.Join(err, kill(most)(ctx, r, s))
}

// slow stops something for most of the time that the fault lasts, a moment each.
func slow(ctx context.Context, s step, signal func(syscall.Signal) error) error {
	const stopped, running = 300 * time.Millisecond, 100 * time.Millisecond
	for end := time.Now().Add(s.hold); time.Now().Before(end); {
		if err := signal(syscall.SIGSTOP); err != nil {
			return err
		}
		if err := errors.Join(measure.Sleep(ctx, stopped), signal(syscall.SIGCONT)); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, running); err != nil {
			return err
		}
	}
	return nil
}

func slowReplicas(n int) action {
	return func(ctx context.Context, r *run, s step) error {
		replicas := r.busiest(ctx, n)
		return slow(ctx, s, func(signal syscall.Signal) error { return r.signal(signal, replicas) })
	}
}

func slowEtcd(ctx context.Context, r *run, s step) error { return slow(ctx, s, r.plane.SignalEtcd) }

func restartEtcd(ctx context.Context, r *run, _ step) error { return r.plane.RestartEtcd(ctx) }

func (r *run) apiServer(s step) *ground.APIServer {
	all := r.g.APIServers()
	return all[s.pick%uint64(len(all))]
}

func killAPIServer(ctx context.Context, r *run, s step) error {
	server := r.apiServer(s)
	server.Stop(ctx, 0)
	if err := measure.Sleep(ctx, s.hold); err != nil {
		return err
	}
	return server.Start(ctx)
}

// stopAPIServer has one hang: connections stand, and nothing is answered.
func stopAPIServer(ctx context.Context, r *run, s step) error {
	server := r.apiServer(s)
	return errors.Join(server.Signal(syscall.SIGSTOP), measure.Sleep(ctx, s.hold), server.Signal(syscall.SIGCONT))
}

func slowAPIServer(ctx context.Context, r *run, s step) error {
	return slow(ctx, s, func(signal syscall.Signal) error { return r.apiServer(s).Signal(signal) })
}

// delayAPIServer has one hear a second later than others of all that is written.
func delayAPIServer(ctx context.Context, r *run, s step) error {
	server := r.apiServer(s)
	defer server.Lag(0)
	server.Lag(time.Second)
	return measure.Sleep(ctx, s.hold)
}

func foreignBundles(ctx context.Context, r *run, _ step) error {
	foreign, err := ground.NewAuthority() // has signed nothing here
	if err != nil {
		return err
	}
	return r.setBundles(ctx, foreign.PEM())
}

// editEntries edits all entries in one respect, and takes that back.
func editEntries(ctx context.Context, r *run, s step) error {
	edit := []func(*admissionregistrationv1.MutatingWebhook){
		func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Ignore },
		func(w *admissionregistrationv1.MutatingWebhook) { *w.FailurePolicy = admissionregistrationv1.Fail },
		func(w *admissionregistrationv1.MutatingWebhook) { *w.TimeoutSeconds = 1 },
		func(w *admissionregistrationv1.MutatingWebhook) {
			w.Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
		},
	}[s.pick%4]
	if err := r.configure(ctx, func(_ int, w *admissionregistrationv1.MutatingWebhook) { edit(w) }); err != nil {
		return err
	}
	if err := measure.Sleep(ctx, s.hold); err != nil {
		return err
	}
	return r.configure(ctx, func(i int, w *admissionregistrationv1.MutatingWebhook) {
		was := r.chart[i].DeepCopy()
		w.FailurePolicy, w.TimeoutSeconds, w.Rules = was.FailurePolicy, was.TimeoutSeconds, was.Rules
	})
}

func takeRights(ctx context.Context, r *run, s step) error {
	group := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return r.without(ctx, s, group.WithResource([]string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"}[s.pick%4]))
}

func deletePolicies(ctx context.Context, r *run, s step) error {
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return r.without(ctx, s, group.WithResource([]string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}[s.pick%2]))
}

// without deletes the release's objects of a resource, and makes them again as they were.
func (r *run) without(ctx context.Context, s step, resource schema.GroupVersionResource) error {
	var objects []unstructured.Unstructured
	err := r.again(ctx, func(ctx context.Context) error {
		list, err := r.dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + ground.Release})
		if err != nil {
			return err
		}
		objects = list.Items
		return nil
	})
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("the release has no %s", resource.Resource)
	}
	if err != nil {
		return err
	}
	each := func(do func(context.Context, *unstructured.Unstructured) error) error {
		for i := range objects {
			if err := r.again(ctx, func(ctx context.Context) error { return do(ctx, &objects[i]) }); err != nil {
				return err
			}
		}
		return nil
	}
	err = each(func(ctx context.Context, o *unstructured.Unstructured) error {
		err := r.dynamic.Resource(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		return ignore(err, apierrors.IsNotFound) // an earlier attempt succeeded
	})
	if err != nil {
		return err
	}
	if err := measure.Sleep(ctx, s.hold); err != nil {
		return err
	}
	return each(func(ctx context.Context, o *unstructured.Unstructured) error {
		o.SetResourceVersion("")
		o.SetUID("")
		_, err := r.dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
		return ignore(err, apierrors.IsAlreadyExists) // by an upgrade
	})
}

// ignore is the error, nil if it is one of that kind.
func ignore(err error, kind func(error) bool) error {
	if kind(err) {
		return nil
	}
	return err
}

// fightLabel has a tool write its idea of a namespace every two seconds: without Pillion's labels,
// or with one that lets pods through.
func fightLabel(ctx context.Context, r *run, s step) error {
	name := namespaceOf([]namespaceKind{enforced, selected}[s.pick%2])
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
				r.see(ns, false)
			}
			return err
		})
	}
	value := ""
	if s.pick/2%2 == 1 {
		value = openValue
	}
	for end := time.Now().Add(s.hold); time.Now().Before(end); {
		if err := write(value); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return write("")
}

func recreateNamespace(ctx context.Context, r *run, s step) error {
	kind := []namespaceKind{neverAsked, enabled, enforced, selected}[s.pick%4]
	name := namespaceOf(kind)
	err := r.again(ctx, func(ctx context.Context) error {
		err := r.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		return ignore(ignore(err, apierrors.IsNotFound), apierrors.IsConflict) // an earlier attempt succeeded
	})
	if err != nil {
		return err
	}
	r.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, true)
	return r.makeNamespace(ctx, name, kind)
}

// editTemplates edits both templates every half second. The one that selects namespaces is required
// every other time, and at the end.
func editTemplates(ctx context.Context, r *run, s step) error {
	requires := s.pick%2 == 0
	for end := time.Now().Add(s.hold); time.Now().Before(end); requires = !requires {
		if err := r.put(ctx, askedTemplate, r.nextVersion()); err != nil {
			return err
		}
		if err := r.put(ctx, selectingTemplate, r.nextVersion(), fmt.Sprint("required: ", requires)); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return r.put(ctx, selectingTemplate, r.nextVersion(), required)
}

// startCanary has half of the workloads refused, and suspends the canary.
func startCanary(ctx context.Context, r *run, s step) error {
	if err := r.putCanary(ctx); err != nil {
		return err
	}
	if err := measure.Sleep(ctx, s.hold); err != nil {
		return err
	}
	return r.putCanary(ctx, suspend)
}

func removeCanary(ctx context.Context, r *run, _ step) error {
	return r.again(ctx, func(ctx context.Context) error {
		err := r.dynamic.Resource(templateResource).Delete(ctx, canaryTemplate, metav1.DeleteOptions{})
		return ignore(err, apierrors.IsNotFound) // an earlier attempt succeeded
	})
}

// upgradeAndBack upgrades the release, and rolls that back.
func upgradeAndBack(ctx context.Context, r *run, s step) error {
	err := r.release(ctx, "upgrade", ground.Release, r.checkout.Chart(), reuse, "--set", "log.level=debug")
	if err == nil {
		err = measure.Sleep(ctx, s.hold)
	}
	if err == nil {
		err = r.release(ctx, "rollback", ground.Release)
	}
	return err
}

// release changes the release, and replaces the replicas by what it asks for then.
func (r *run) release(ctx context.Context, args ...string) error {
	err := r.again(ctx, func(ctx context.Context) error {
		err := r.helm(ctx, args...)
		if err != nil && strings.Contains(err.Error(), "another operation") { // that was broken off
			_ = r.helm(ctx, "rollback", ground.Release)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.again(ctx, func(context.Context) error { return r.plane.Replace(ctx, ground.Namespace) })
}
