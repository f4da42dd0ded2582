package e2e

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pillionsEvents are the events of Pillion in the namespace.
func (n *namespace) pillionsEvents(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := client.EventsV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
	expectNoError(t, err)
	var all []eventsv1.Event
	for _, e := range list.Items {
		if e.ReportingController == "pillion" {
			all = append(all, e)
		}
	}
	return all
}

// waitEvent waits until Pillion tells of an object of the kind what is in the note.
func (n *namespace) waitEvent(t *testing.T, kind, reason, note string) {
	t.Helper()
	eventually(t, 2*soon, func() error {
		all := n.pillionsEvents(t)
		for _, e := range all {
			if e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.UID != "" && strings.Contains(e.Note, note) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on a %s with %q among %s", reason, kind, note, pretty(all))
	})
}

// What the cluster refuses because of a sidecar, after Pillion admitted the pod, is an event on the
// topmost owner, once, with the template and the parameter that helps: no controller shows the
// warnings of kubectl apply.
func TestWhatASidecarCostsAWorkloadShowsWhereItIsDescribed(t *testing.T) {
	t.Parallel()
	side, ordinary := newTemplate(t), manifest{name: unique("ordinary"), spec: "\ninject: {spec: {containers: [{name: NAME, image: registry.example.com/proxy}]}}"}
	ordinary.apply(t)
	memory := "It comes from the template " + side + ": the parameter " + side + ".pillion.dev/memory"
	deployment := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {
		securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}},
		containers: [{name: app, image: nginx, resources: {limits: {memory: 16Mi}}, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}}}`
	for name, c := range map[string]struct {
		template, limit, workload, regarding, reason string
		labels                                       map[string]string
		says                                         []string
		fails                                        string // what the API server says, "" for nothing
	}{
		"a LimitRange": {template: side, limit: "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 32Mi}}]}}", workload: deployment,
			regarding: "Deployment/web", reason: "RefusedByCluster", says: []string{"the LimitRange small refuses the pod", memory}, fails: "maximum memory usage per Container is 32Mi"},
		"a quota": {template: side, limit: "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team}, spec: {hard: {limits.memory: 48Mi}}}", workload: deployment,
			regarding: "Deployment/web", reason: "RefusedByCluster", says: []string{"the ResourceQuota team refuses the pod", memory}, fails: "exceeded quota: team"},
		"a quota that others have used up": {template: side, limit: "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team}, spec: {hard: {limits.memory: 100Mi}}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: other, annotations: {pillion.dev/inject: 'false'}}, spec: {containers: [{name: app, image: nginx, resources: {limits: {memory: 80Mi}}}]}}", workload: deployment,
			regarding: "Deployment/web", reason: "RefusedByCluster", says: []string{"the ResourceQuota team refuses the pod", memory}, fails: "exceeded quota: team"},
		"Pod Security": {template: side, labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, workload: deployment,
			regarding: "Deployment/web", reason: "RefusedByCluster", says: []string{"Pod Security refuses the pod", "It comes from the template " + side}, fails: "violates PodSecurity"},
		"a Job": {template: ordinary.name, workload: `{apiVersion: batch/v1, kind: Job, metadata: {name: report}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: nginx}]}}}}`,
			regarding: "Job/report", reason: "JobNeverFinishes", says: []string{"the Job finishes only when the container " + ordinary.name + " ends, too", "It comes from the template " + ordinary.name}},
		"nothing": {template: side, workload: deployment},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, asking(c.template), c.labels)
			if c.limit != "" {
				must(t, c.limit, "kubectl", "-n", n.name, "apply", "-f", "-")
			}
			if strings.Contains(c.limit, "ResourceQuota") { // its status is what the API server goes by
				must(t, "", "kubectl", "-n", n.name, "wait", "--for=jsonpath={.status.hard}", "resourcequota/team")
			}
			must(t, c.workload, "kubectl", "-n", n.name, "apply", "-f", "-")
			if c.fails != "" {
				eventually(t, soon, func() error {
					if out := must(t, "", "kubectl", "-n", n.name, "get", "rs", "-o", "jsonpath={.items[*].status.conditions[*].message}"); !strings.Contains(out, c.fails) {
						return fmt.Errorf("the ReplicaSet says %q, want %q", out, c.fails)
					}
					return nil
				})
			}
			if c.reason == "" {
				n.mustCreate(t, newPod("later", nil))
				n.waitPods(t, 1, "app=web")
				if all := n.pillionsEvents(t); len(all) > 0 {
					t.Errorf("events about a workload whose pods come to be:\n%s", pretty(all))
				}
				return
			}
			eventually(t, soon, func() error {
				all := n.pillionsEvents(t)
				if len(all) != 1 || all[0].Regarding.Kind+"/"+all[0].Regarding.Name != c.regarding || all[0].Reason != c.reason || all[0].Type != "Warning" {
					return fmt.Errorf("want one event %s on %s:\n%s", c.reason, c.regarding, pretty(all))
				}
				for _, want := range append(c.says, "kubectl pillion explain -n "+n.name) {
					if !strings.Contains(all[0].Note, want) {
						return fmt.Errorf("the event says %q, want %q", all[0].Note, want)
					}
				}
				return nil
			})
			if c.template != side || !strings.Contains(c.limit, "LimitRange") {
				return
			}
			// The runbook's remedy. The controller tries again after a pause, and at once when its workload changes.
			must(t, "", "kubectl", "annotate", "namespace", n.name, side+".pillion.dev/memory=32Mi", "--overwrite")
			must(t, "", "kubectl", "-n", n.name, "scale", "deployment", "web", "--replicas=2")
			n.waitPods(t, 2, "app=web")
		})
	}
}

// Pillion changes its labels on pods. A workload that selects by them would create pods without
// end. Labels alone, copied from a live pod into a pod template, do no harm.
func TestAWorkloadThatSelectsByPillionsLabelsIsRefused(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	key := name + ".pillion.dev/hash"
	for what, c := range map[string]struct{ selector, says string }{
		"a hash":        {fmt.Sprintf(`matchLabels: {app: web, %s: "0123456789"}`, key), "spec.selector names " + key},
		"injected":      {`matchLabels: {app: web, pillion.dev/injected: "true"}`, "spec.selector names pillion.dev/injected"},
		"an expression": {fmt.Sprintf(`matchExpressions: [{key: %s, operator: Exists}]`, key), "spec.selector names " + key},
		"labels only":   {"matchLabels: {app: web}", ""},
	} {
		_, stderr, err := run(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {%s}, template: {
			metadata: {labels: {app: web, pillion.dev/injected: "true", %s: "0123456789"}}, spec: {containers: [{name: app, image: nginx}]}}}}`, c.selector, key), "kubectl", "-n", n.name, "create", "-f", "-")
		if (err != nil) != (c.says != "") || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %v\n%s", what, err, stderr)
		}
	}
	template := fmt.Sprintf(`template: {metadata: {labels: {app: other, %s: "0123456789"}}, spec: {containers: [{name: app, image: nginx}], restartPolicy: RESTART}}`, key)
	for what, manifest := range map[string]string{
		"a ReplicationController":         fmt.Sprintf(`{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: {selector: {app: other, %s: "0123456789"}, %s}}`, key, strings.Replace(template, "RESTART", "Always", 1)),
		"one that takes its pods' labels": fmt.Sprintf(`{apiVersion: v1, kind: ReplicationController, metadata: {name: web}, spec: {%s}}`, strings.Replace(template, "RESTART", "Always", 1)),
		"a Job with a selector":           fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {manualSelector: true, selector: {matchLabels: {%s: "0123456789"}}, %s}}`, key, strings.Replace(template, "RESTART", "Never", 1)),
	} {
		if _, stderr, err := run(t, manifest, "kubectl", "-n", n.name, "create", "-f", "-"); err == nil || !strings.Contains(stderr, "spec.selector names "+key) {
			t.Errorf("%s: %v\n%s", what, err, stderr)
		}
	}
	n.waitPods(t, 1, "pillion.dev/injected=true,"+key+"!=0123456789")
}
