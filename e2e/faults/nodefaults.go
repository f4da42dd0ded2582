package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// away is how long kube-apiserver is away, and cutOff how long replicas do not reach it.
const away, cutOff = 60 * time.Second, 45 * time.Second

// missed is what the age of a cache may lack of the time that its replica was cut off.
const missed = 10 * time.Second

// reuse has helm upgrade keep the values of the release.
const reuse = "--reset-then-reuse-values"

// nodeFaults are done to a node in this order. docs/concepts/faults.md has a row for each.
var nodeFaults = []fault{
	{name: "burst", do: burst},
	{name: "burst-after-none", before: scaledFromNone, do: burst},
	{name: "burst-cpu-200m", before: cpuLimit("200m"), do: burst, after: rollback},
	{name: "burst-cpu-50m", before: cpuLimit("50m", "--set", "webhook.timeoutSeconds=30"), do: burstAlone, after: rollback},
	{name: "rolling-restart", do: restart},
	{name: "upgrade", do: upgradeTo(reuse, "--set", "log.level=debug")},
	{name: "bad-upgrade", do: failingUpgrade(reuse, "--set", "webhook.clientCA=-----BEGIN CERTIFICATE-----"), mend: rollback},
	{name: "upgrade-without-values", do: failingUpgrade("--reset-values", "--set", "log.level=info")},
	{name: "kill-one", restarts: true, do: kill(one)},
	{name: "kill-all", restarts: true, do: kill(most)},
	{name: "stop-one", restarts: true, do: stop(one)},
	{name: "stop-all", restarts: true, do: stop(most)},
	{name: "scale-to-none", do: scale(0), hold: 5 * time.Second, mend: scale(2)},
	{name: "api-server-restart", before: makeLate, do: apiServerRestart, mend: annotateLate, stale: 2 * settle, elsewhere: settle},
	{name: "api-server-away", before: makeLate, do: apiServerAway, mend: annotateLate, stale: 2 * settle, elsewhere: settle},
	{name: "cut-off-one", before: makeLate, do: cutOffOne, hold: cutOff, mend: reconnect, stale: settle},
	{name: "cut-off-all", before: makeOpened, do: cutOffAll, hold: cutOff, mend: reconnect, stale: settle},
	{name: "configuration-deleted", do: deleteConfiguration, hold: 3 * time.Second, mend: upgradeTo(reuse), denied: map[namespaceKind]time.Duration{selected: 6 * time.Second}},
	{name: "cabundle-emptied", do: emptyBundles},
	{name: "ca-secret-deleted", do: damageSecret},
	{name: "template-deleted", do: deleteTemplate},
	{name: "template-deleted-anyway", do: deleteTemplateAnyway, hold: 3 * time.Second, mend: putTemplate, denied: ofThoseThatAsk(time.Second)},
	{name: "template-suspended", do: suspendTemplate, hold: 3 * time.Second, mend: putTemplate},
	{name: "crd-deleted", do: deleteCRD, hold: 3 * time.Second, mend: restoreCRD},
	{name: "uninstall-reinstall", do: uninstall, hold: 5 * time.Second, mend: install},
	{name: "namespace-deleted", do: deleteNamespace, hold: 3 * time.Second, mend: install},
}

// ofThoseThatAsk is a time for pods of namespaces that ask for a template.
func ofThoseThatAsk(d time.Duration) map[namespaceKind]time.Duration {
	return map[namespaceKind]time.Duration{enabled: d, enforced: d}
}

func burst(ctx context.Context, r *run, _ step) error {
	return r.load.burst(ctx, r.g.Kubeconfig(), enabled)
}

// burstAlone is a burst while nothing else creates pods.
func burstAlone(ctx context.Context, r *run, s step) error {
	r.load.paused.Store(true)
	defer r.load.paused.Store(false)
	if err := measure.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	return burst(ctx, r, s)
}

func scaledFromNone(ctx context.Context, r *run, s step) error {
	return errors.Join(r.g.Scale(ctx, ground.Namespace, 0), scale(2)(ctx, r, s), r.rolledOut(ctx))
}

func cpuLimit(limit string, more ...string) action {
	return upgradeTo(append([]string{reuse, "--set", "resources.limits.cpu=" + limit}, more...)...)
}

// upgradeTo is helm upgrade, with more arguments.
func upgradeTo(args ...string) action {
	return func(ctx context.Context, r *run, _ step) error {
		return r.helm(ctx, append([]string{"upgrade", ground.Release, r.checkout.Chart(), "--wait", "--timeout=120s"}, args...)...)
	}
}

// failingUpgrade is an upgrade that must not succeed.
func failingUpgrade(args ...string) action {
	return func(ctx context.Context, r *run, s step) error {
		if upgradeTo(append(args, "--timeout=15s")...)(ctx, r, s) == nil {
			return errors.New("the upgrade succeeds")
		}
		return nil
	}
}

func rollback(ctx context.Context, r *run, _ step) error {
	return r.helm(ctx, "rollback", ground.Release, "--wait", "--timeout=120s")
}

// restart replaces all replicas, and returns when that is done.
func restart(ctx context.Context, r *run, _ step) error {
	if err := r.kubectl(ctx, "rollout", "restart", "deployment/pillion"); err != nil {
		return err
	}
	return r.rolledOut(ctx)
}

func (r *run) rolledOut(ctx context.Context) error {
	return r.kubectl(ctx, "rollout", "status", "deployment/pillion", "--timeout=120s")
}

func scale(n int) action {
	return func(ctx context.Context, r *run, _ step) error {
		return r.kubectl(ctx, "scale", "deployment/pillion", fmt.Sprintf("--replicas=%d", n))
	}
}

func apiServerRestart(ctx context.Context, r *run, _ step) error {
	server := r.g.APIServers()[0]
	server.Stop(ctx, 20*time.Second)
	return server.Start(ctx)
}

func apiServerAway(ctx context.Context, r *run, _ step) error {
	server := r.g.APIServers()[0]
	server.Stop(ctx, 0)
	return errors.Join(measure.Sleep(ctx, away), server.Start(context.WithoutCancel(ctx)))
}

// makeLate makes two namespaces that ask for nothing yet.
func makeLate(ctx context.Context, r *run, _ step) error {
	for _, kind := range []namespaceKind{enforced, enabled} {
		name := fmt.Sprintf("faults-late-%s-%d", kind, time.Now().UnixMilli()%1_000_000)
		if err := r.makeNamespace(ctx, name, neverAsked); err != nil {
			return err
		}
		r.late = append(r.late, name)
	}
	return measure.Sleep(ctx, 2*settle)
}

// annotateLate has them ask, in one write each, and creates pods in them from then on.
func annotateLate(ctx context.Context, r *run, _ step) error {
	for i, kind := range []namespaceKind{enforced, enabled} {
		annotations, labels := wish(kind, r.asks, true)
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "labels": labels}})
		if err != nil {
			return err
		}
		if _, err := r.client.CoreV1().Namespaces().Patch(ctx, r.late[i], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		r.streams.Go(func() { r.load.stream(ctx, kind, r.late[i]) })
	}
	return nil
}

// cutOffOne has the late namespaces ask while one replica cannot see it.
func cutOffOne(ctx context.Context, r *run, s step) error {
	if err := r.cutOff(ctx, r.busiest(ctx, one)); err != nil {
		return err
	}
	return annotateLate(ctx, r, s)
}

// cutOff has replicas not reach kube-apiserver.
func (r *run) cutOff(ctx context.Context, replicas []ground.Replica) error {
	r.cut = replicas
	return r.node.CutOff(ctx, replicas...)
}

// reconnect lets the replicas reach kube-apiserver again. It is an error if one has reached it meanwhile.
func reconnect(ctx context.Context, r *run, _ step) error {
	for _, replica := range r.cut {
		age, err := measure.Metric(ctx, replica, "pillion_cache_age_seconds", "cache", "namespaces")
		if err != nil {
			return err
		}
		if want := cutOff - missed; age < want.Seconds() {
			return fmt.Errorf("%s was cut off for %s, and its cache of namespaces is %.1f s old", replica.Name, cutOff, age)
		}
	}
	return r.node.Reconnect(ctx)
}

// makeOpened makes a namespace, and waits until Pillion enforces it.
func makeOpened(ctx context.Context, r *run, _ step) error {
	name := fmt.Sprint("faults-opened-", time.Now().UnixMilli()%1_000_000)
	if err := r.makeNamespace(ctx, name, enforced); err != nil {
		return err
	}
	r.late = append(r.late, name)
	if err := r.again(ctx, func(ctx context.Context) error { return r.enforced(ctx, name) }); err != nil {
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
func cutOffAll(ctx context.Context, r *run, _ step) error {
	if err := r.cutOff(ctx, r.g.Replicas(ground.Namespace)); err != nil {
		return err
	}
	name := namespaceOf(enforced)
	annotations, _ := wish(enforced, r.asks, false)
	manifest, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "annotations": annotations}})
	if err != nil {
		return err
	}
	for range 2 {
		if _, _, err := ground.Exec(ctx, r.g, string(manifest), "kubectl", "replace", "-f", "-"); err != nil {
			return err
		}
		if err := r.enforced(ctx, name); err != nil {
			return err
		}
	}
	opened := r.late[0]
	r.streams.Go(func() { r.load.stream(ctx, enabled, opened) })
	return r.kubectl(ctx, "label", "namespace", opened, injectionLabel+"="+openValue, "--overwrite")
}

func deleteConfiguration(ctx context.Context, r *run, _ step) error {
	return r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, ground.Release, metav1.DeleteOptions{})
}

func emptyBundles(ctx context.Context, r *run, _ step) error { return r.setBundles(ctx, nil) }

// setBundles writes the caBundle of every entry.
func (r *run) setBundles(ctx context.Context, bundle []byte) error {
	return r.configure(ctx, func(_ int, w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.CABundle = bundle })
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

// caSecret holds the CA that Pillion made.
const caSecret = "pillion-ca"

// damageSecret deletes the CA's Secret, or makes it useless.
func damageSecret(ctx context.Context, r *run, s step) error {
	secrets := r.client.CoreV1().Secrets(ground.Namespace)
	return r.again(ctx, func(ctx context.Context) error {
		if s.pick%2 == 0 {
			return secrets.Delete(ctx, caSecret, metav1.DeleteOptions{})
		}
		_, err := secrets.Patch(ctx, caSecret, types.MergePatchType, []byte(`{"data":{"tls.key":"bm8ga2V5"}}`), metav1.PatchOptions{}) // no key
		return err
	})
}

// deleteTemplate has the template's deletion refused.
func deleteTemplate(ctx context.Context, r *run, _ step) error {
	err := r.kubectl(ctx, "delete", "sidecartemplate", askedTemplate)
	if err == nil {
		return errors.New("a template that namespaces ask for is deleted without a word")
	}
	if !strings.Contains(err.Error(), "allow-delete") {
		return err
	}
	return nil
}

func deleteTemplateAnyway(ctx context.Context, r *run, _ step) error {
	if err := r.kubectl(ctx, "annotate", "sidecartemplate", askedTemplate, "pillion.dev/allow-delete=true"); err != nil {
		return err
	}
	return r.kubectl(ctx, "delete", "sidecartemplate", askedTemplate)
}

func putTemplate(ctx context.Context, r *run, _ step) error {
	return r.put(ctx, askedTemplate, firstVersion)
}

func suspendTemplate(ctx context.Context, r *run, _ step) error {
	return r.put(ctx, askedTemplate, "", suspend)
}

func deleteCRD(ctx context.Context, r *run, _ step) error {
	return r.kubectl(ctx, "delete", "crd", "sidecartemplates.pillion.dev")
}

func restoreCRD(ctx context.Context, r *run, s step) error {
	if err := r.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", filepath.Join(r.checkout.Chart(), "crds")); err != nil {
		return err
	}
	if err := upgradeTo(reuse)(ctx, r, s); err != nil {
		return err
	}
	return r.putTemplates(ctx)
}

func uninstall(ctx context.Context, r *run, _ step) error {
	return r.helm(ctx, "uninstall", ground.Release, "--wait")
}

func install(ctx context.Context, r *run, _ step) error {
	_, err := ground.Run(ctx, r.g, "helm", ground.InstallArgs(r.g, r.checkout.Chart(), append(Values(), "--timeout=120s")...)...)
	return err
}

func deleteNamespace(ctx context.Context, r *run, _ step) error {
	return r.kubectl(ctx, "delete", "namespace", ground.Namespace, "--timeout=90s")
}
