package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// A fault is done to a node under load.
type fault struct {
	name string
	// fresh has it begin with replicas that were never restarted.
	fresh bool
	// before is done before the pods count, and after when they do not count any more.
	before, after func(context.Context, *run) error
	// harm does the fault.
	harm func(context.Context, *run) error
	// mend is what an admin does about it, after hold. Without it, the fault ends by itself.
	hold time.Duration
	// lasts is how long pods count at least, from then on.
	lasts time.Duration
	mend  func(context.Context, *run) error
}

// burstSize is how many pods a burst has.
const burstSize = 500

// away is how long kube-apiserver is away.
const away = 60 * time.Second

// cutOff is how long one replica does not reach kube-apiserver.
const cutOff = 45 * time.Second

// missed is what the age of a cache may lack of the time that its replica was cut off, and
// backLimit is how long the replica may take then to learn what it missed.
const (
	missed    = 10 * time.Second
	backLimit = 10 * time.Second
)

// hung is longer than it takes until a replica that hangs is ended.
const hung = 20 * time.Second

// reuse has helm upgrade keep the values of the release.
const reuse = "--reset-then-reuse-values"

// faults are done in this order. docs/concepts/faults.md has a row for each.
var faults = []fault{
	{name: "burst", harm: burst},
	{name: "burst-after-none", before: scaledFromNone, harm: burst},
	{name: "burst-cpu-200m", before: cpuLimit("200m"), harm: burst, after: rollback},
	{name: "burst-cpu-50m", before: cpuLimit("50m"), harm: burst, after: rollback},
	{name: "rolling-restart", harm: func(ctx context.Context, r *run) error { return r.restart(ctx) }},
	{name: "upgrade", harm: func(ctx context.Context, r *run) error { return r.upgrade(ctx, reuse, "--set", "log.level=debug") }},
	{name: "bad-upgrade", harm: failingUpgrade(reuse, "--set", "webhook.clientCA=-----BEGIN CERTIFICATE-----"), mend: rollback},
	{name: "upgrade-without-values", harm: failingUpgrade("--reset-values", "--set", "log.level=info")},
	{name: "kill-one", fresh: true, harm: signal(syscall.SIGKILL, 1)},
	{name: "kill-all", fresh: true, harm: signal(syscall.SIGKILL, 100)},
	{name: "stop-one", fresh: true, harm: signal(syscall.SIGSTOP, 1), lasts: hung},
	{name: "stop-all", fresh: true, harm: signal(syscall.SIGSTOP, 100), lasts: hung},
	{name: "scale-to-none", harm: scale(0), hold: 5 * time.Second, mend: scale(2)},
	{name: "api-server-restart", before: makeLate, harm: apiServerRestart, mend: annotateLate},
	{name: "api-server-away", before: makeLate, harm: apiServerAway, mend: annotateLate},
	{name: "cut-off-one", before: makeLate, harm: cutOffOne, hold: cutOff, mend: reconnect},
	{name: "cut-off-all", before: makeEnforced, harm: cutOffAll, hold: cutOff, mend: reconnectAll},
	{name: "configuration-deleted", harm: deleteConfiguration, hold: 3 * time.Second, mend: func(ctx context.Context, r *run) error { return r.upgrade(ctx, reuse) }},
	{name: "cabundle-emptied", harm: emptyBundles},
	{name: "ca-secret-deleted", harm: func(ctx context.Context, r *run) error { return r.kubectl(ctx, "delete", "secret", "pillion-ca") }},
	{name: "template-deleted", harm: deleteTemplate},
	{name: "template-deleted-anyway", harm: deleteTemplateAnyway, hold: 3 * time.Second, mend: applyTemplate},
	{name: "template-suspended", harm: suspend(true), hold: 3 * time.Second, mend: suspend(false)},
	{name: "crd-deleted", harm: deleteCRD, hold: 3 * time.Second, mend: restoreCRD},
	{name: "uninstall-reinstall", harm: uninstall, hold: 5 * time.Second, mend: install},
	{name: "namespace-deleted", harm: deleteNamespace, hold: 3 * time.Second, mend: install},
}

func burst(ctx context.Context, r *run) error {
	return r.load.burst(ctx, Requested, requestedNamespace, burstSize)
}

func scaledFromNone(ctx context.Context, r *run) error {
	if err := r.g.Scale(ctx, ground.Namespace, 0); err != nil {
		return err
	}
	if err := scale(2)(ctx, r); err != nil {
		return err
	}
	return r.rolledOut(ctx)
}

func cpuLimit(limit string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.upgrade(ctx, reuse, "--set", "resources.limits.cpu="+limit); err != nil {
			return err
		}
		return measure.Sleep(ctx, calm)
	}
}

// failingUpgrade is an upgrade that must not succeed.
func failingUpgrade(args ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.upgrade(ctx, append(args, "--timeout=15s")...); err == nil {
			fmt.Fprintln(r.out, "  the upgrade succeeds")
		}
		return nil
	}
}

// signal sends a signal to the n replicas that answer most, or to all.
func signal(s syscall.Signal, n int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		replicas, err := r.busiest(ctx)
		if err != nil {
			return err
		}
		for _, replica := range replicas[:min(n, len(replicas))] {
			if err := r.g.Signal(replica, s); err != nil {
				return err
			}
		}
		return nil
	}
}

func scale(n int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		return r.kubectl(ctx, "scale", "deployment/pillion", fmt.Sprintf("--replicas=%d", n))
	}
}

func apiServerRestart(ctx context.Context, r *run) error {
	server := r.g.APIServers()[0]
	server.Stop(ctx, 20*time.Second)
	return server.Start(ctx)
}

func apiServerAway(ctx context.Context, r *run) error {
	server := r.g.APIServers()[0]
	server.Stop(ctx, 0)
	if err := measure.Sleep(ctx, away); err != nil {
		return errors.Join(err, server.Start(context.WithoutCancel(ctx)))
	}
	return server.Start(ctx)
}

// cutOffOne has the late namespaces ask while one replica cannot see it.
func cutOffOne(ctx context.Context, r *run) error {
	replicas, err := r.busiest(ctx)
	if err != nil {
		return err
	}
	r.cut = replicas[0]
	if r.cutAnswers, r.cut503, err = r.cutCounts(ctx); err != nil {
		return err
	}
	if err := r.g.CutOff(ctx, r.cut); err != nil {
		return err
	}
	if err := annotateLate(ctx, r); err != nil {
		return err
	}
	patch, err := r.askOf(ctx, r.cut, r.late[1])
	if err == nil && strings.Contains(patch, librarySidecar) {
		return fmt.Errorf("%s was cut off, and knows what was said after it", r.cut.Name)
	}
	return nil
}

// reconnect lets the replica reach kube-apiserver again. It is an error if the replica reached it
// meanwhile, or does not learn what it missed.
func reconnect(ctx context.Context, r *run) error {
	age, err := measure.Metric(ctx, r.cut, "pillion_cache_age_seconds", "cache", "namespaces")
	if err != nil {
		return err
	}
	if want := cutOff - missed; age < want.Seconds() {
		return fmt.Errorf("%s was cut off for %s, and its cache of namespaces is %.1f s old", r.cut.Name, cutOff, age)
	}
	answered, unavailable, err := r.cutCounts(ctx)
	if err != nil {
		return err
	}
	if err := r.g.Reconnect(ctx); err != nil {
		return err
	}
	began := time.Now()
	err = measure.Within(ctx, backLimit, func() error {
		patch, err := r.askOf(ctx, r.cut, r.late[1])
		if err == nil && !strings.Contains(patch, librarySidecar) {
			err = fmt.Errorf("%s does not know what was said while it was cut off", r.cut.Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "  %s: cut off, it answered %.0f reviews and sent %.0f away; its cache of namespaces was %.1f s old; it knows what it missed %s after it was connected again\n",
		r.cut.Name, answered-r.cutAnswers, unavailable-r.cut503, age, time.Since(began).Round(time.Millisecond))
	return nil
}

// cutCounts are how many reviews the replica that is cut off has answered, and how many it has sent
// to another replica.
func (r *run) cutCounts(ctx context.Context) (answered, unavailable float64, err error) {
	if answered, err = answers(ctx, r.cut); err != nil {
		return 0, 0, err
	}
	unavailable, err = measure.Metric(ctx, r.cut, "pillion_admission_unavailable_total")
	return answered, unavailable, err
}

// askOf returns the patch that the replica itself answers for a pod of the namespace, by the entry
// of namespaces that fail open.
func (r *run) askOf(ctx context.Context, one ground.Replica, namespace string) (string, error) {
	reviewers, err := r.reviewers(ctx)
	if err != nil {
		return "", err
	}
	for _, replica := range reviewers {
		if replica.Name == one.Name {
			return ask(ctx, replica, namespace)
		}
	}
	return "", fmt.Errorf("%s is not ready any more", one.Name)
}

// makeLate makes two namespaces of which nobody asks anything yet.
func makeLate(ctx context.Context, r *run) error {
	suffix := fmt.Sprint(time.Now().UnixMilli() % 1_000_000)
	for _, kind := range []Kind{Enforced, Requested} {
		name := "faults-late-" + string(kind) + "-" + suffix
		if err := makeNamespace(ctx, r.client, name, NeverAsked); err != nil {
			return err
		}
		r.late = append(r.late, name)
	}
	return measure.Sleep(ctx, 2*settle)
}

// annotateLate has them ask, in one write each, and creates pods in them from then on.
func annotateLate(ctx context.Context, r *run) error {
	for i, kind := range []Kind{Enforced, Requested} {
		annotations, labels := wish(kind, true)
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "labels": labels}})
		if err != nil {
			return err
		}
		if _, err := r.client.CoreV1().Namespaces().Patch(ctx, r.late[i], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	for i, kind := range []Kind{Enforced, Requested} {
		_, client, err := measure.Connect(r.g.Kubeconfig())
		if err != nil {
			return err
		}
		namespace := r.late[i]
		r.streams.Go(func() { r.load.stream(r.streamsEnd, client, kind, namespace) })
	}
	return nil
}

// makeEnforced makes a namespace, and waits until Pillion enforces it.
func makeEnforced(ctx context.Context, r *run) error {
	name := fmt.Sprint("faults-opened-", time.Now().UnixMilli()%1_000_000)
	if err := makeNamespace(ctx, r.client, name, Enforced); err != nil {
		return err
	}
	r.late = append(r.late, name)
	if err := measure.Within(ctx, controllersLimit, func() error { return r.enforced(ctx, name) }); err != nil {
		return err
	}
	return measure.Sleep(ctx, 2*settle)
}

// enforced is nil if the namespace has the label of those that fail closed.
func (r *run) enforced(ctx context.Context, namespace string) error {
	ns, err := r.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err == nil && ns.Labels[injectionLabel] != closedValue {
		err = fmt.Errorf("the namespace %s has the label %s=%q, want %s", namespace, injectionLabel, ns.Labels[injectionLabel], closedValue)
	}
	return err
}

// cutOffAll cuts all replicas off. Meanwhile somebody replaces one enforced namespace by a manifest
// without the label, twice, and opens the other one by hand. Pods of both still come with their
// sidecars.
func cutOffAll(ctx context.Context, r *run) error {
	if err := r.g.CutOff(ctx, r.g.Replicas(ground.Namespace)...); err != nil {
		return err
	}
	annotations, _ := wish(Enforced, false)
	manifest, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": enforcedNamespace, "annotations": annotations}})
	if err != nil {
		return err
	}
	for range 2 {
		if err := r.manifest(ctx, "replace", string(manifest)); err != nil {
			return err
		}
		if err := r.enforced(ctx, enforcedNamespace); err != nil {
			return err
		}
	}
	if err := r.kubectl(ctx, "label", "namespace", r.late[0], injectionLabel+"="+openValue, "--overwrite"); err != nil {
		return err
	}
	_, client, err := measure.Connect(r.g.Kubeconfig())
	if err != nil {
		return err
	}
	r.streams.Go(func() { r.load.stream(r.streamsEnd, client, Requested, r.late[0]) })
	return nil
}

func reconnectAll(ctx context.Context, r *run) error { return r.g.Reconnect(ctx) }

// removeLate deletes the late namespaces.
func (r *run) removeLate(ctx context.Context) error {
	for _, name := range r.late {
		if err := r.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	r.late = nil
	return nil
}

func deleteConfiguration(ctx context.Context, r *run) error {
	return r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, ground.Release, metav1.DeleteOptions{})
}

func emptyBundles(ctx context.Context, r *run) error {
	configurations := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := configurations.Get(ctx, ground.Release, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = nil
		}
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
}

// deleteTemplate has the template's deletion refused.
func deleteTemplate(ctx context.Context, r *run) error {
	err := r.kubectl(ctx, "delete", "sidecartemplate", clusterSidecar)
	if err == nil {
		return errors.New("a template that namespaces ask for is deleted without a word")
	}
	if !strings.Contains(err.Error(), "allow-delete") {
		return err
	}
	return nil
}

func deleteTemplateAnyway(ctx context.Context, r *run) error {
	if err := r.kubectl(ctx, "annotate", "sidecartemplate", clusterSidecar, "pillion.dev/allow-delete=true"); err != nil {
		return err
	}
	return r.kubectl(ctx, "delete", "sidecartemplate", clusterSidecar)
}

func applyTemplate(ctx context.Context, r *run) error { return r.apply(ctx, clusterTemplate) }

func suspend(value bool) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		began := time.Now()
		err := r.kubectl(ctx, "patch", "sidecartemplate", clusterSidecar, "--type=merge", fmt.Sprintf(`--patch={"spec":{"suspend":%v}}`, value))
		r.state.suspend(began, value)
		return err
	}
}

func deleteCRD(ctx context.Context, r *run) error {
	return r.kubectl(ctx, "delete", "crd", "sidecartemplates.pillion.dev")
}

func restoreCRD(ctx context.Context, r *run) error {
	if err := r.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", filepath.Join(r.checkout.Chart(), "crds")); err != nil {
		return err
	}
	if err := r.upgrade(ctx, reuse); err != nil {
		return err
	}
	return r.apply(ctx, clusterTemplate)
}

func uninstall(ctx context.Context, r *run) error {
	_, err := ground.Run(ctx, r.g, "helm", "uninstall", ground.Release, "-n", ground.Namespace, "--wait")
	return err
}

func deleteNamespace(ctx context.Context, r *run) error {
	return r.kubectl(ctx, "delete", "namespace", ground.Namespace, "--timeout=90s")
}

// apply applies a manifest.
func (r *run) apply(ctx context.Context, manifest string) error {
	return r.manifest(ctx, "apply", manifest)
}

// manifest has kubectl do something with a manifest.
func (r *run) manifest(ctx context.Context, verb, manifest string) error {
	var last error
	for range 20 { // a CRD is served a moment after it was made
		if _, _, last = ground.Exec(ctx, r.g, manifest, "kubectl", verb, "-f", "-"); last == nil {
			return nil
		}
		if err := measure.Sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
	return last
}
