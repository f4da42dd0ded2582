package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Explain explains objects of the cluster.
func (l *Live) Explain(ctx context.Context, targets []Object) (explain.Report, error) {
	report := explain.Report{Pods: []explain.Pod{}}
	s := l.Session()
	for _, target := range targets {
		in := l.Fallback
		if target.Kind == "Namespace" {
			in = target.Name
		}
		if s.Namespaces.all[in] == nil {
			read, err := l.NamespaceOf(ctx, in)
			if err != nil {
				return report, err
			}
			s.Namespaces.Add(read)
		}
		ns := *s.Namespaces.all[in]
		var explained explain.Pod
		var err error
		switch target.Kind {
		case "Namespace":
			report.Namespaces = append(report.Namespaces, l.explainNamespace(ns))
			pod := runtime.DeepCopyJSON(samples.Bundled()[0].Pod)
			if explained, err = s.explainCreated(ctx, workload.Pod{Object: pod, Owner: "a plain pod"}, ns.Namespace, pod, nil); err == nil && !l.Complete {
				err = s.addAnswer(ctx, &explained, pod)
			}
			explained.Keys = []string{} // the namespace's own part has them
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
	report.Notes = append(report.Notes, l.Notes()...)
	return report, nil
}

// get reads an object.
func (c *Cluster) get(ctx context.Context, namespace string, o Object) (*unstructured.Unstructured, error) {
	found, err := c.Objects.Resource(o.GroupVersionResource).Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s/%s in namespace %s: %w", strings.ToLower(o.Kind), o.Name, namespace, err)
	}
	return found, nil
}

// ExplainFile explains a pod of a file.
func (s *Session) ExplainFile(ctx context.Context, p workload.Pod) (explain.Pod, error) {
	ns, known := s.Namespaces.Find(p.Namespace)
	now, err := s.standing(ctx, p, ns)
	if err != nil {
		return explain.Pod{}, err
	}
	created := p.Created(ns.Name)
	if now != nil {
		created = now.Base
	}
	explained, err := s.explainCreated(ctx, p, ns, created, now)
	switch {
	case err != nil:
		return explained, err
	case s.Live == nil:
		explained.HideUnasked()
		explained.Notes = append(explained.Notes, s.fileNotes(ns.Name, known, now)...)
	default:
		explained.Called = new(s.Live.callState(*s.Namespaces.get(ns.Name), created, nil))
		if !s.Live.Complete {
			err = s.addAnswer(ctx, &explained, created)
		}
	}
	return explained, err
}

// standing compares a pod of a file with a pod that is created now. It returns nil for a pod that
// does not exist and has no record.
func (s *Session) standing(ctx context.Context, p workload.Pod, ns templates.Namespace) (*drift.Comparison, error) {
	metadata, _ := p.Object["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	rec, _ := record.Parse(p.Object) // the outcome has a warning about a malformed record
	if uid == "" && rec.Empty() {
		return nil, nil
	}
	found, err := s.Compare.Compare(ctx, p.Created(ns.Name), ns, s.Templates)
	if err != nil || !found.Counts {
		return nil, err
	}
	return &found, nil
}

// fileNotes returns notes about facts that are not in the files.
func (s *Session) fileNotes(namespace string, known bool, now *drift.Comparison) []explain.Note {
	var notes []explain.Note
	add := func(format string, args ...any) {
		notes = append(notes, explain.Note{Text: fmt.Sprintf(format, args...)})
	}
	if !known {
		add("no --namespace-file has the namespace %s: it counts as one without annotations, and with no label but its name", namespace)
	}
	if now == nil {
		return notes
	}
	for _, name := range drift.Named(now.Templates, drift.Dropped) {
		add("%s was injected before (%s/status), and would not be injected with these files: check the namespace and --templates", name, v1alpha1.Group)
	}
	return notes
}

// explainCreated explains a pod that is created now. now is the comparison of an existing pod with it, or nil.
func (s *Session) explainCreated(ctx context.Context, p workload.Pod, ns templates.Namespace, created map[string]any, now *drift.Comparison) (explain.Pod, error) {
	in := explain.Input{Name: p.Owner, Namespace: ns.Name, Standing: now}
	if _, known := s.Namespaces.Find(ns.Name); !known {
		in.Unknown = s.Namespaces.unknown(ns.Name)
	}
	out, err := s.OutcomeOf(ctx, created, ns, injector.Request{Explain: true})
	if err != nil {
		return explain.Pod{}, err
	}
	in.Outcome, in.Keys, in.NoTemplates = out, s.keysOf(p, ns, out), s.Live != nil && s.Live.Templates == nil
	return explain.Of(in), nil
}

// keysOf returns findings about meaningless keys under Pillion's prefix, in a pod or in a workload
// and its pod template, and in the namespace. A pod is refused for an unknown parameter of a template that it
// gets, so that is no finding.
func (s *Session) keysOf(p workload.Pod, ns templates.Namespace, out injector.Outcome) []keys.Finding {
	rules := keys.Rules{Templates: s.Templates.In(ns.Name), Namespace: ns.Labels, Concerned: explain.Concerned(out), TemplatesUnread: s.Live != nil && s.Live.Templates == nil}
	ofPod := keys.Object{Level: keys.Pod, Kind: "pod"}
	ofPod.Labels, ofPod.Annotations = metadataOf(p.Object)
	var found []keys.Finding
	if kind, _, _ := strings.Cut(p.Owner, "/"); kind != "Pod" && p.Holder() != nil {
		of := keys.Object{Level: keys.Workload, Kind: kind, PodLabels: ofPod.Labels, PodAnnotations: ofPod.Annotations}
		of.Labels, of.Annotations = metadataOf(p.Holder())
		found = keys.Check(rules, of)
	}
	found = append(found, keys.Check(rules, ofPod)...)
	for _, f := range keys.Check(rules, keys.Object{Level: keys.Namespace, Labels: ns.Labels, Annotations: ns.Annotations}) {
		if template, _, _ := keys.Under(f.Key); template == "" || !rules.Concerned(template) {
			f.Says = "on the namespace " + f.Says
			found = append(found, f)
		}
	}
	return found
}

// metadataOf returns an object's labels and annotations.
func metadataOf(object map[string]any) (labels, annotations map[string]string) {
	u := unstructured.Unstructured{Object: object}
	return u.GetLabels(), u.GetAnnotations()
}

// explainPod explains a pod that exists.
func (s *Session) explainPod(ctx context.Context, ns Namespace, o Object) (explain.Pod, error) {
	found, err := s.Live.get(ctx, ns.Name, o)
	if err != nil {
		return explain.Pod{}, err
	}
	pod, err := exactPod(found)
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading pod/%s in namespace %s: %w", o.Name, ns.Name, err)
	}
	now, created, err := s.compared(ctx, ns, pod)
	if err != nil {
		return explain.Pod{}, err
	}
	explained, err := s.explainCreated(ctx, workload.Pod{Object: created, Owner: "Pod/" + o.Name}, ns.Namespace, created, now)
	if err != nil {
		return explain.Pod{}, err
	}
	explained.Called = new(s.Live.callState(ns, created, pod))
	if !s.Live.Complete {
		if err := s.addAnswer(ctx, &explained, created); err != nil {
			return explained, err
		}
	}
	if now == nil {
		explained.Notes = append(explained.Notes, explain.Note{Text: "the pod has ended, is being deleted, or mirrors a static pod of a node: it is not compared with a new one, and the answer is about a new one"})
	}
	return explained, nil
}

// compared compares an existing pod with a new one. It returns the new pod without Pillion's
// changes. now is nil for a pod that has ended, is being deleted, or mirrors a static pod.
func (s *Session) compared(ctx context.Context, ns Namespace, pod map[string]any) (now *drift.Comparison, created map[string]any, err error) {
	found, err := s.Compare.Compare(ctx, pod, ns.Namespace, s.Templates)
	if err != nil {
		return nil, nil, err
	}
	if !found.Counts {
		rec, _ := record.Parse(pod)
		return nil, rec.Base(pod), nil
	}
	approximate := s.Live.approximate
	found.Places = slices.DeleteFunc(found.Places, func(p drift.Place) bool {
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
			t.State = drift.Current
		default:
			t.State = explain.StateUnknown
		}
	}
	return &found, found.Base, nil
}

// explainWorkload explains the pod that a workload creates, and compares the workload's pods with it.
func (s *Session) explainWorkload(ctx context.Context, ns Namespace, o Object) (explain.Pod, error) {
	found, err := s.Live.get(ctx, ns.Name, o)
	if err != nil {
		return explain.Pod{}, err
	}
	data, err := found.MarshalJSON()
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading %s/%s: %w", o.Kind, o.Name, err)
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return explain.Pod{}, fmt.Errorf("reading %s/%s: %w", o.Kind, o.Name, err)
	}
	var explained explain.Pod
	if _, _, err := workload.Change(documents[0].Object, func(p workload.Pod) (map[string]any, error) {
		created := p.Created(ns.Name)
		var err error
		if explained, err = s.explainCreated(ctx, p, ns.Namespace, created, nil); err != nil {
			return nil, err
		}
		explained.Called = new(s.Live.callState(ns, created, nil))
		if err := s.addRunning(ctx, &explained, ns, o, found); err != nil {
			return nil, err
		}
		return p.Object, s.addAnswer(ctx, &explained, created)
	}); err != nil {
		return explain.Pod{}, err
	}
	return explained, nil
}

// explainNamespace explains the label, the annotations and the keys of a namespace.
func (l *Live) explainNamespace(ns Namespace) explain.Namespace {
	called := l.callState(ns, nil, nil)
	rules := keys.Rules{Namespace: ns.Labels, TemplatesUnread: l.Templates == nil}
	if l.Templates != nil {
		rules.Templates = l.Templates.In(ns.Name)
	}
	d := explain.Namespace{Name: ns.Name, Label: ns.Labels[v1alpha1.InjectionLabel], Called: called.Why, Annotations: map[string]string{}}
	d.Keys = explain.Sentences(keys.Check(rules, keys.Object{Level: keys.Namespace, Kind: "Namespace", Labels: ns.Labels, Annotations: ns.Annotations}))
	for key, value := range ns.Annotations {
		if _, _, ok := keys.Under(key); ok {
			d.Annotations[key] = value
		}
	}
	return d
}

// callState reports whether API servers call Pillion for pods of the namespace with the
// annotations of pod, which may be nil. live is the existing pod, or nil for a new one.
func (l *Live) callState(ns Namespace, pod, live map[string]any) explain.CallState {
	key := v1alpha1.InjectionLabel
	annotations, _, _ := unstructured.NestedMap(pod, "metadata", "annotations")
	label, labelled := ns.Labels[key]
	call := l.Compare.Registration.Call(ns.Namespace, annotations)
	called := explain.CallState{IsKnown: true, Now: call.Called()}
	switch {
	case call == entries.CalledNowhere:
		called.Why = fmt.Sprintf("no: Pillion excludes the namespace %s", ns.Name)
	case ns.Unread != nil:
		called.IsKnown, called.Now, called.Why = false, false, "not known: the namespace cannot be read"
	case call == entries.CalledByLabel:
		called.Why = fmt.Sprintf("yes: the namespace has the label %s=%s", key, label)
	case call == entries.NotCalledByLabel:
		called.Why = fmt.Sprintf("no: the namespace has the label %s=%s", key, label)
	case call == entries.CalledByPod:
		called.Why = fmt.Sprintf("yes: the pod itself has the annotation %s/inject", v1alpha1.Group)
	case call == entries.CalledForAll:
		called.Why = "yes: Pillion is registered for the pods of all namespaces (webhook.scope: All)"
	case l.scope != nil:
		called.IsKnown, called.Why = false, fmt.Sprintf("no, unless webhook.scope is All: the namespace has no label %s", key)
	case labelled:
		called.Why = fmt.Sprintf("no: the label %s=%s of the namespace is not recognised; allowed are enabled, enforced and disabled", key, label)
	case pod == nil:
		called.Why = fmt.Sprintf("no: the namespace has no label %s; only pods that have the annotation %s/inject themselves", key, v1alpha1.Group)
	default:
		called.Why = fmt.Sprintf("no: the namespace has no label %s, and the pod no annotation %s/inject", key, v1alpha1.Group)
	}
	if live != nil {
		called.Then = l.callAtCreation(ns, live)
	}
	return called
}

// callAtCreation explains whether Pillion was called when the pod was created, by the pod's record
// and the namespace's managed fields.
func (l *Live) callAtCreation(ns Namespace, pod map[string]any) string {
	rec, err := record.Parse(pod)
	if err == nil && !rec.Empty() {
		return fmt.Sprintf("yes: the pod has the record %s/status", v1alpha1.Group)
	}
	u := unstructured.Unstructured{Object: pod}
	created := u.GetCreationTimestamp()
	says := fmt.Sprintf("the pod was created at %s, and has no record %s/status: Pillion was not called, or gave it nothing", created.UTC().Format(time.RFC3339), v1alpha1.Group)
	if written, ok := writtenAt(ns.object, v1alpha1.InjectionLabel); ok && written.After(created.Time) {
		says = fmt.Sprintf("no: the pod was created at %s, and the namespace's label was written later, at %s", created.UTC().Format(time.RFC3339), written.UTC().Format(time.RFC3339))
	}
	return says
}

// writtenAt returns an upper bound of the time when a label of an object was written: the last
// write of the label's field manager.
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

// Params returns, by name, the parameters of a template for a plain pod of the namespace. It returns
// nil without a namespace.
func (l *Live) Params(ctx context.Context, name, namespace string) (map[string]explain.Parameter, error) {
	if namespace == "" {
		return nil, nil
	}
	ns, err := l.NamespaceOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if ns.Unread != nil {
		return nil, ns.Unread
	}
	s := l.Session()
	s.Namespaces.Add(ns)
	pod := runtime.DeepCopyJSON(samples.Bundled()[0].Pod)
	pod["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.InjectKey: name}}
	out, err := s.OutcomeOf(ctx, pod, ns.Namespace, injector.Request{Explain: true})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(out.Templates, func(o injector.TemplateOutcome) bool { return o.Name == name && o.Code == reason.BadParameter }) {
		return nil, fmt.Errorf("a pod of namespace %s: %s", namespace, out.Message)
	}
	explained := explain.Of(explain.Input{Name: "a plain pod", Namespace: namespace, Outcome: out})
	given := map[string]explain.Parameter{}
	for _, t := range explained.Templates {
		if t.Name == name {
			for _, p := range t.Parameters {
				given[p.Name] = p
			}
		}
	}
	return given, nil
}
