package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/injector/survey"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
)

// objectKind is a kind of objects that a command can be asked about.
type objectKind struct {
	// short is kubectl's short name of the resource, or the singular.
	kind, group, version, resource, short string
	// restart: kubectl rollout restart replaces its pods.
	restart bool
}

var objectKinds = []objectKind{
	{kind: "Pod", version: "v1", resource: "pods", short: "pod"},
	{kind: "Deployment", group: "apps", version: "v1", resource: "deployments", short: "deploy", restart: true},
	{kind: "StatefulSet", group: "apps", version: "v1", resource: "statefulsets", short: "sts", restart: true},
	{kind: "DaemonSet", group: "apps", version: "v1", resource: "daemonsets", short: "ds", restart: true},
	{kind: "ReplicaSet", group: "apps", version: "v1", resource: "replicasets", short: "rs"},
	{kind: "ReplicationController", version: "v1", resource: "replicationcontrollers", short: "rc"},
	{kind: "Job", group: "batch", version: "v1", resource: "jobs", short: "job"},
	{kind: "CronJob", group: "batch", version: "v1", resource: "cronjobs", short: "cj"},
	{kind: "Namespace", version: "v1", resource: "namespaces", short: "ns"},
}

// kindOf returns the kind that a name means to kubectl: the resource, its singular or short
// name, and the first two with the group or with version and group.
func kindOf(name string) (objectKind, bool) {
	name = strings.ToLower(name)
	if name == "po" {
		name = "pods"
	}
	for _, k := range objectKinds {
		if name == k.short {
			return k, true
		}
		for _, plain := range []string{k.resource, strings.ToLower(k.kind)} {
			if name == plain || k.group != "" && (name == plain+"."+k.group || name == plain+"."+k.version+"."+k.group) {
				return k, true
			}
		}
	}
	return objectKind{}, false
}

// object is one that a command is asked about.
type object struct {
	objectKind
	name string
}

// parseObjects reads KIND/NAME…, or KIND NAME….
func parseObjects(args []string) ([]object, error) {
	var all []object
	for i := 0; i < len(args); i++ {
		kind, name, qualified := strings.Cut(args[i], "/")
		of, known := kindOf(kind)
		switch {
		case !known && !qualified:
			return nil, usageError{fmt.Errorf("%q is no kind that explain knows; name an object with its kind: pod/%[1]s, deploy/%[1]s, sts/%[1]s, ds/%[1]s, rs/%[1]s, rc/%[1]s, job/%[1]s, cj/%[1]s or ns/%[1]s", kind)}
		case !known:
			var kinds []string
			for _, k := range objectKinds {
				kinds = append(kinds, k.short)
			}
			return nil, usageError{fmt.Errorf("explain knows no kind %q; the kinds are %s", kind, strings.Join(kinds, ", "))}
		case qualified && name == "", !qualified && (i > 0 || len(args) == 1):
			return nil, usageError{fmt.Errorf("%q has no name: %s/NAME", args[i], kind)}
		case strings.Contains(name, "/"):
			return nil, usageError{fmt.Errorf("%q is no name of an object: %s/NAME", args[i], kind)}
		case qualified:
			all = append(all, object{of, name})
			continue
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, usageError{fmt.Errorf("%s %s: give KIND NAME, or KIND/NAME for each", args[0], name)}
			}
			all = append(all, object{of, name})
		}
		return all, nil
	}
	return all, nil
}

// live explains objects of a cluster.
func (c *explainCommand) live(cmd *cobra.Command, targets []object) (explain.Report, error) {
	cl, err := c.given.connect(cmd)
	if err != nil {
		return explain.Report{}, err
	}
	cl.chain = c.chain
	return cl.explain(cmd.Context(), targets)
}

// explain explains objects of the cluster.
func (c *cluster) explain(ctx context.Context, targets []object) (explain.Report, error) {
	report := explain.Report{Pods: []explain.Pod{}}
	s := c.session()
	for _, target := range targets {
		in := c.namespace
		if target.kind == "Namespace" {
			in = target.name
		}
		ns, read := s.namespaces.live[in]
		if !read {
			var err error
			if ns, err = c.namespaceOf(ctx, in); err != nil {
				return report, err
			}
			s.namespaces.keep(ns)
		}
		var explained explain.Pod
		var err error
		switch target.kind {
		case "Namespace":
			report.Namespaces = append(report.Namespaces, c.describe(ns))
			pod := runtime.DeepCopyJSON(samples.Bundled()[0].Pod)
			explained, err = s.explainNew(ctx, ns, workload.Pod{Object: pod, Owner: "a plain pod"}, pod, nil)
		case "Pod":
			explained, err = s.explainPod(ctx, ns, target)
		default:
			explained, err = s.explainWorkload(ctx, ns, target)
		}
		if err != nil {
			return report, err
		}
		report.Pods = append(report.Pods, explained)
	}
	report.Notes = append(report.Notes, c.notes...)
	return report, nil
}

// get reads an object. Its error says which right is missing.
func (c *cluster) get(ctx context.Context, namespace string, o object) (*unstructured.Unstructured, error) {
	resource := schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource}
	found, err := c.objects.Resource(resource).Namespace(namespace).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return nil, granting(fmt.Errorf("reading %s/%s in namespace %s: %w", strings.ToLower(o.kind), o.name, namespace, err))
	}
	return found, nil
}

// explainNew explains a pod as it is created now, or how one that exists compares with it.
func (s *session) explainNew(ctx context.Context, ns liveNamespace, p workload.Pod, created map[string]any, now *standing.Standing) (explain.Pod, error) {
	in := explain.Input{Name: p.Owner, Namespace: ns.Name, Standing: now, Templates: s.set, Values: s.values, Approximate: s.cluster.settings.approximate}
	if ns.unread != nil {
		in.Unknown = s.namespaces.unknown(ns.Name)
	}
	if s.cluster.settings.set == nil {
		explained := explain.Of(in)
		explained.Notes = append(explained.Notes, ns.notes...)
		if err := s.cluster.link(ctx, &explained, ns.Namespace.Namespace, created, nil); err != nil {
			return explained, err
		}
		explained.Verdict, explained.Refused = "which templates it gets cannot be told with your rights", false
		for i := range explained.Standings {
			explained.Standings[i].State, explained.Standings[i].Code = explain.StateUnknown, ""
		}
		return explained, s.ask(ctx, &explained, ns.Name, created)
	}
	out, err := s.outcomeOf(ctx, created, ns.Namespace.Namespace, injector.Request{Explain: true})
	if err != nil {
		return explain.Pod{}, err
	}
	in.Outcome, in.Troubles, in.Keys = out.Outcome, out.troubles, s.keysOf(p, ns.Namespace.Namespace, out.Outcome)
	explained := explain.Of(in)
	explained.Notes = append(explained.Notes, ns.notes...)
	if err := s.cluster.link(ctx, &explained, ns.Namespace.Namespace, created, out.Pod); err != nil {
		return explained, err
	}
	if !s.cluster.complete {
		return explained, s.ask(ctx, &explained, ns.Name, created)
	}
	return explained, nil
}

// ask asks the API server by dry run what becomes of the pod: where the server's
// settings cannot be read, only it knows.
func (s *session) ask(ctx context.Context, explained *explain.Pod, namespace string, pod map[string]any) error {
	made, warnings, err := s.cluster.create(ctx, namespace, pod)
	switch {
	case lacksRight(err):
		explained.Notes = append(explained.Notes, lacking("the API server was not asked by dry run: ", err))
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		explained.DryRun = &explain.DryRun{Says: "refused: " + err.Error(), Warnings: warnings}
	default:
		rec, _ := record.Parse(made, s.prefix+"/status")
		says := "admitted, without a template"
		var has []string
		for _, name := range slices.Sorted(maps.Keys(rec.Templates)) {
			has = append(has, fmt.Sprintf("%s (version %s)", name, rec.Hash(name)))
		}
		if len(has) > 0 {
			says = "admitted, with " + strings.Join(has, ", ")
		}
		explained.DryRun = &explain.DryRun{Allowed: true, Says: says, Warnings: warnings}
	}
	if d := explained.DryRun; d != nil && d.Allowed == explained.Refused {
		explained.Verdict = fmt.Sprintf("created now it is %s, as the API server answers to a dry run; by what can be read: %s", map[bool]string{true: "admitted", false: "refused"}[d.Allowed], explained.Verdict)
		explained.Refused = !d.Allowed
	}
	return nil
}

// explainPod explains a pod that exists.
func (s *session) explainPod(ctx context.Context, ns liveNamespace, o object) (explain.Pod, error) {
	found, err := s.cluster.get(ctx, ns.Name, o)
	if err != nil {
		return explain.Pod{}, err
	}
	pod, err := exactPod(found)
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading pod/%s in namespace %s: %w", o.name, ns.Name, err)
	}
	now, created, err := s.compared(ctx, ns, pod)
	if err != nil {
		return explain.Pod{}, err
	}
	explained, err := s.explainNew(ctx, ns, workload.Pod{Object: created, Owner: "Pod/" + o.name}, created, now)
	if err != nil {
		return explain.Pod{}, err
	}
	if now == nil {
		explained.Notes = append(explained.Notes, explain.Note{Says: "the pod has ended, is being deleted, or mirrors a static pod of a node: it is not compared with a new one, and what is said is about a new one"})
	}
	called := s.cluster.called(ns, created, pod)
	explained.Called = &called
	return explained, nil
}

// compared compares a pod that exists with a new one, and returns the new one as its author
// wrote it. Now is nil where the comparison means nothing.
func (s *session) compared(ctx context.Context, ns liveNamespace, pod map[string]any) (now *standing.Standing, created map[string]any, err error) {
	found, err := s.compare.Compare(ctx, pod, ns.Namespace.Namespace, s.set)
	if err != nil {
		return nil, nil, err
	}
	if !found.Counts {
		rec, _ := record.Parse(pod, s.prefix+"/status")
		return nil, rec.Base(pod), nil
	}
	approximate := s.cluster.settings.approximate
	found.Places = slices.DeleteFunc(found.Places, func(p standing.Place) bool {
		return slices.ContainsFunc(p.Templates, func(name string) bool { return approximate[name] != "" })
	})
	for i := range found.Templates {
		t := &found.Templates[i]
		hash := approximate[t.Name]
		if hash == "" || t.Gets == "" {
			continue
		}
		t.Gets = hash
		switch t.Has {
		case "":
		case hash:
			t.State = standing.Current
		default:
			t.State = explain.StateUnknown
		}
	}
	return &found, found.Base, nil
}

// explainWorkload explains the pod that a workload creates, and how its pods stand.
func (s *session) explainWorkload(ctx context.Context, ns liveNamespace, o object) (explain.Pod, error) {
	found, err := s.cluster.get(ctx, ns.Name, o)
	if err != nil {
		return explain.Pod{}, err
	}
	data, err := found.MarshalJSON()
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading %s/%s: %w", o.kind, o.name, err)
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading %s/%s: %w", o.kind, o.name, err)
	}
	var explained explain.Pod
	if _, _, err := workload.Change(documents[0].Object, func(p workload.Pod) (map[string]any, error) {
		created := p.Created(ns.Name)
		var err error
		if explained, err = s.explainNew(ctx, ns, p, created, nil); err != nil {
			return nil, err
		}
		called := s.cluster.called(ns, created, nil)
		explained.Called = &called
		return p.Object, nil
	}); err != nil {
		return explain.Pod{}, err
	}
	explained.Running, err = s.running(ctx, ns, o, found)
	return explained, err
}

// running says how the pods of a workload stand.
func (s *session) running(ctx context.Context, ns liveNamespace, o object, workload *unstructured.Unstructured) (*explain.Running, error) {
	r := &explain.Running{Behind: []explain.RunningPod{}}
	if s.cluster.settings.set == nil {
		r.Unread = &explain.Note{Says: "how they stand cannot be told without the templates"}
		return r, nil
	}
	mine, err := s.cluster.ownerOf(ctx, ns.Name, o, workload)
	if err != nil {
		r.Unread = new(lacking("", err))
		return r, nil
	}
	replace := false
	_, err = s.cluster.podsOf(workload).Each(ctx, ns.Name, func(pod map[string]any) error {
		if !mine(pod) {
			return nil
		}
		now, _, err := s.compared(ctx, ns, pod)
		if err != nil || now == nil {
			return err
		}
		r.Pods++
		says := explain.Behind(now)
		if refused := standing.Named(now.Templates, standing.Refused); len(refused) > 0 {
			says = "a new one would be refused"
		}
		if dropped := standing.Named(now.Templates, standing.Dropped); says == "" && len(dropped) > 0 {
			says = "has " + strings.Join(dropped, ", ") + ", and a new one does not get it"
		}
		if says == "" {
			r.Current++
			return nil
		}
		replace = replace || now.Behind()
		name, _, _ := unstructured.NestedString(pod, "metadata", "name")
		r.Behind = append(r.Behind, explain.RunningPod{Name: name, Says: says})
		return nil
	})
	switch {
	case apierrors.IsForbidden(err):
		r.Unread = new(lacking("", err))
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("reading the pods of %s/%s: %w", o.kind, o.name, err)
	}
	slices.SortFunc(r.Behind, func(a, b explain.RunningPod) int { return cmp.Compare(a.Name, b.Name) })
	if replace && o.restart {
		r.Remedy = fmt.Sprintf("kubectl -n %s rollout restart %s/%s", ns.Name, strings.ToLower(o.kind), o.name)
	}
	return r, nil
}

// podsOf lists the pods that a workload's selector selects, or all where it has none.
func (c *cluster) podsOf(workload *unstructured.Unstructured) survey.List {
	selector := ""
	if raw, ok, _ := unstructured.NestedMap(workload.Object, "spec", "selector"); ok {
		var s metav1.LabelSelector
		if workload.GetKind() == "ReplicationController" {
			set, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "selector")
			s.MatchLabels = set
		} else if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s) != nil {
			s = metav1.LabelSelector{}
		}
		if parsed, err := metav1.LabelSelectorAsSelector(&s); err == nil && !parsed.Empty() {
			selector = parsed.String()
		}
	}
	return func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error) {
		o.LabelSelector = selector
		return c.list(ctx, namespace, o)
	}
}

// ownerOf returns a function that reports whether a pod is the workload's.
func (c *cluster) ownerOf(ctx context.Context, namespace string, o object, workload *unstructured.Unstructured) (func(pod map[string]any) bool, error) {
	owner := func(pod map[string]any) (kind, name string) {
		u := unstructured.Unstructured{Object: pod}
		if of := metav1.GetControllerOf(&u); of != nil {
			return of.Kind, of.Name
		}
		return "", ""
	}
	switch o.kind {
	case "Deployment":
		return func(pod map[string]any) bool {
			return survey.WorkloadOf(pod) == survey.Workload{Kind: "Deployment", Name: o.name}
		}, nil
	case "CronJob":
		jobs, err := c.objects.Resource(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the Jobs of cronjob/%s: %w", o.name, err)
		}
		own := map[string]bool{}
		for _, job := range jobs.Items {
			if of := metav1.GetControllerOf(&job); of != nil && of.UID == workload.GetUID() {
				own[job.GetName()] = true
			}
		}
		return func(pod map[string]any) bool { kind, name := owner(pod); return kind == "Job" && own[name] }, nil
	}
	return func(pod map[string]any) bool { kind, name := owner(pod); return kind == o.kind && name == o.name }, nil
}

// describe says what a namespace says of itself.
func (c *cluster) describe(ns liveNamespace) explain.Namespace {
	called := c.called(ns, nil, nil)
	d := explain.Namespace{Name: ns.Name, Label: ns.Labels[templates.InjectionLabel(c.settings.prefix)], Called: called.Why, Annotations: map[string]string{}, Keys: []string{}}
	if c.settings.set != nil {
		d.Keys = explain.Sentences(keys.Check(keys.Rules{Prefix: c.settings.prefix, Templates: c.settings.set, Namespace: ns.Labels},
			keys.Object{Level: keys.Namespace, Kind: "Namespace", Labels: ns.Labels, Annotations: ns.Annotations}))
	}
	for key, value := range ns.Annotations {
		if _, _, ok := keys.Under(c.settings.prefix, key); ok {
			d.Annotations[key] = value
		}
	}
	return d
}

// called says whether API servers call Pillion for pods of the namespace with the annotations
// of pod, which may be nil. Live is the pod as it exists, nil for a new one.
func (c *cluster) called(ns liveNamespace, pod, live map[string]any) explain.Called {
	prefix := c.settings.prefix
	key := templates.InjectionLabel(prefix)
	annotations, _, _ := unstructured.NestedMap(pod, "metadata", "annotations")
	_, asks := annotations[prefix+"/inject"]
	label, labelled := ns.Labels[key]
	called := explain.Called{Known: true}
	switch {
	case slices.Contains(c.settings.excluded, ns.Name):
		called.Why = fmt.Sprintf("no: Pillion keeps out of the namespace %s", ns.Name)
	case ns.unread != nil:
		called.Known, called.Why = false, "not known: the namespace's label cannot be read with your rights"
	case label == templates.InjectionEnabled || label == templates.InjectionEnforced:
		called.Now, called.Why = true, fmt.Sprintf("yes: the namespace has the label %s=%s", key, label)
	case label == templates.InjectionDisabled:
		called.Why = fmt.Sprintf("no: the namespace has the label %s=%s", key, label)
	case asks:
		called.Now, called.Why = true, fmt.Sprintf("yes: the pod itself has the annotation %s/inject", prefix)
	case c.settings.all:
		called.Now, called.Why = true, "yes: Pillion is registered for the pods of all namespaces (webhook.scope: All)"
	case c.settings.scope != nil:
		unread := lacking(fmt.Sprintf("not known: the namespace has no label %s, and whether webhook.scope is All cannot be read: ", key), c.settings.scope)
		called.Known, called.Why, called.Remedy = false, unread.Says, unread.Remedy
	case labelled:
		called.Why = fmt.Sprintf("no: the label %s=%s of the namespace means nothing; allowed are enabled, enforced and disabled", key, label)
	default:
		called.Why = fmt.Sprintf("no: the namespace has no label %s, and the pod no annotation %s/inject", key, prefix)
		if pod == nil {
			called.Why = fmt.Sprintf("no: the namespace has no label %s; only pods that have the annotation %s/inject themselves", key, prefix)
		}
	}
	if live != nil {
		called.Then = c.calledThen(ns, live)
	}
	return called
}

// calledThen says whether Pillion was called when the pod was created, as far as the pod and
// the namespace tell.
func (c *cluster) calledThen(ns liveNamespace, pod map[string]any) string {
	rec, err := record.Parse(pod, c.settings.prefix+"/status")
	if err == nil && !rec.Empty() {
		return fmt.Sprintf("yes: the pod has the record %s/status", c.settings.prefix)
	}
	u := unstructured.Unstructured{Object: pod}
	created := u.GetCreationTimestamp()
	says := fmt.Sprintf("the pod was created at %s, and has no record %s/status: Pillion was not called, or gave it nothing", created.UTC().Format(time.RFC3339), c.settings.prefix)
	if written, ok := writtenAt(ns.object, templates.InjectionLabel(c.settings.prefix)); ok && written.After(created.Time) {
		says = fmt.Sprintf("no: the pod was created at %s, and the namespace's label was written later, at %s", created.UTC().Format(time.RFC3339), written.UTC().Format(time.RFC3339))
	}
	return says
}

// writtenAt returns when a label of an object was written last, at the latest: the last write
// of the manager that the label belongs to.
func writtenAt(object map[string]any, label string) (time.Time, bool) {
	u := unstructured.Unstructured{Object: object}
	for _, entry := range u.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Labels map[string]any `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if entry.Time == nil || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Labels["f:"+label]; ok {
			return entry.Time.Time, true
		}
	}
	return time.Time{}, false
}
