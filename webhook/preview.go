package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"golang.org/x/time/rate"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// PreviewOptions are what the preview works with. All fields are required but Workloads and Rate.
type PreviewOptions struct {
	Pods Pods
	// Created returns the pod template of a workload, and the pod that the workload's controller
	// creates of it in a namespace. Of a pod both are the pod. Both are nil for an object without
	// a pod. The error says why the pod template cannot be read.
	Created func(workload map[string]any, namespace string) (template, pod map[string]any, err error)
	// Workloads calls f with the workloads of a namespace, as JSON, while there is time. It returns
	// what could not be looked at, and why. Nil: they may not be read.
	Workloads func(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unlooked []string)
	// Rate bounds how many are answered. Default: 100 in a second, after a burst of 200.
	Rate *rate.Limiter
}

// Bounds of previews. They are advice, and what takes them to their bounds goes without:
// real pods need the processor and the memory.
const (
	// previewsPerSecond is how many a replica answers in a second, after a burst of
	// previewBurst. One of an ordinary Deployment takes about a millisecond.
	previewsPerSecond = 100
	previewBurst      = 200
	// previewWait is how long one waits for the previews before it.
	previewWait = 100 * time.Millisecond
	// previewTime is how long the work on one may take. API servers wait for a second.
	previewTime = 700 * time.Millisecond
	// previewCopies is how many times a decoded workload is in memory: itself, the pod that its
	// controller creates, Kubernetes' type of it, and the pipeline's own work.
	previewCopies = 5
)

type preview struct {
	options PreviewOptions
	through entries.Entry
	looked  looked
}

// NewPreview returns the webhooks that say, to whoever writes a workload, a pod or a namespace,
// what its pods will meet: one for each entry. Nobody sees the warnings that controllers get.
// They refuse nothing, share their bounds, and answer what is beyond these without a word.
func NewPreview(o PreviewOptions, entries []entries.Entry) []Webhook {
	if o.Rate == nil {
		o.Rate = rate.NewLimiter(previewsPerSecond, previewBurst)
	}
	all, once := make([]Webhook, len(entries)), newLooked()
	for i, entry := range entries {
		all[i] = preview{o, entry, once}
	}
	return all
}

func (preview) Name() string { return "preview" }

func (p preview) Review(ctx context.Context, r *Review) (Response, error) {
	if r.Operation != "CREATE" && r.Operation != "UPDATE" {
		return Allowed(), nil
	}
	if r.Object.isAbsent() {
		return Response{}, Malformed("the review's request has no object")
	}
	if !p.options.Rate.Allow() {
		return Skipped(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}); r.Kind == want {
		return p.namespace(ctx, r)
	}
	ns, err := p.options.Pods.Namespaces.Get(ctx, r.Namespace, p.through.Selects)
	if err != nil {
		return Skipped(), nil // it can be read at the next try, or Pillion has other troubles
	}
	if !p.hold(ctx, r) || rawjson.Exceeds(r.Object, slotMemory/previewCopies) {
		return Skipped(), nil
	}
	object, err := podschema.DecodeObject(r.Object, "metadata", "managedFields")
	if err != nil {
		return Response{}, Malformed("the review's object cannot be read: %v", err)
	}
	template, created, err := p.options.Created(object, r.Namespace)
	if err != nil {
		return Response{}, Malformed("the review's object cannot be read: %v", err)
	}
	if created == nil {
		return Allowed(), nil
	}
	return p.workload(ctx, r, ns, written{object, template, created})
}

// hold waits for the slot of previews, and reports whether the review has it.
func (p preview) hold(ctx context.Context, r *Review) bool {
	wait, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	return r.memory.hold(wait, r.Namespace, slotMemory) == nil
}

// written is what somebody writes: a workload, its pod template, and the pod that is created
// of it. Of a pod all three are the pod.
type written struct{ object, template, created map[string]any }

func (p preview) workload(ctx context.Context, r *Review, ns templates.Namespace, w written) (Response, error) {
	request := injector.Request{Operation: "CREATE", Pod: w.created, Namespace: ns, Templates: p.options.Pods.Templates().In(ns.Name), Now: p.options.Pods.now()}
	out, err := p.options.Pods.Pipeline.Inject(ctx, request)
	if ctx.Err() != nil {
		return Skipped(), nil // that there was no time here says nothing of the pods
	}
	if err != nil {
		return Response{}, fmt.Errorf("previewing the pods of %s %s: %w", r.Kind.Kind, r.objectName(), err)
	}
	own, template := unstructured.Unstructured{Object: w.object}, unstructured.Unstructured{Object: w.template}
	said := telling{about: r.Kind.Kind + " " + nameOf(own), name: nameOf(own), review: r}
	if r.Kind.Kind == "CronJob" && out.Command != "" { // the Job that the pod names is made up
		out.Command = p.options.Pods.Pipeline.ExplainCommand(ns.Name, "cronjob/"+said.name)
	}
	if r.Kind.Kind != "Pod" {
		said.outcome(out)
	}
	rules := keys.Rules{Templates: request.Templates, Namespace: ns.Labels, Concerned: concerned(out)}
	if r.Kind.Kind != "Pod" {
		said.workloadKeys(keys.Check(rules, keys.Object{
			Level: keys.Workload, Kind: r.Kind.Kind, Labels: own.GetLabels(), Annotations: own.GetAnnotations(), PodLabels: template.GetLabels(), PodAnnotations: template.GetAnnotations(),
		}))
	}
	for _, f := range keys.Check(rules, keys.Object{Level: keys.Pod, Labels: template.GetLabels(), Annotations: template.GetAnnotations()}) {
		said.pods(f.String())
	}
	return Allowed(said.warnings...), nil
}

// concerned returns the templates that the outcome has something about. Where one rule has
// decided for the whole pod, that are all.
func concerned(out injector.Outcome) func(string) bool {
	switch out.Code {
	case reason.PodOptedOut, reason.NamespaceOptedOut, reason.NamespaceExcluded, reason.NamespaceDisabled, reason.MirrorPod, reason.BadAnnotation:
		return nil
	}
	about := map[string]bool{}
	for _, t := range out.Templates {
		about[t.Name] = true
	}
	return func(template string) bool { return about[template] }
}

// maxMistaken bounds the templates whose parameters on a namespace are looked at.
const maxMistaken = 20

// namespace answers for a namespace: what its annotation, its parameters and its keys mean.
func (p preview) namespace(ctx context.Context, r *Review) (Response, error) {
	if labelMemory*len(r.Object) > slotMemory || !p.hold(ctx, r) {
		return Skipped(), nil
	}
	object, _, err := readObject(r.Object, "Namespace")
	if err != nil {
		return Response{}, err
	}
	ns := templates.Namespace{Name: cmp.Or(r.Name, object.Name), Labels: object.Labels.value, Annotations: object.Annotations.value}
	set := p.options.Pods.Templates().In(ns.Name)
	said := telling{about: "namespace " + ns.Name, name: ns.Name, review: r}
	asked := p.options.Pods.Pipeline.DecideForNamespace(ns, set)
	asked.Command = "" // it is about a pod
	said.outcome(asked)
	looked := 0
	for _, name := range namedBy(ns.Annotations) {
		e, ok := set.Get(name)
		if !ok || e.Template == nil {
			continue
		}
		if looked++; looked > maxMistaken || ctx.Err() != nil {
			break
		}
		for _, mistake := range e.Template.Mistakes(templates.FromNamespace, ns.Annotations) {
			said.say(fmt.Sprintf("namespace %s: pods with the template %s are refused: %v (%s)", ns.Name, name, mistake, reason.BadParameter))
		}
		for _, c := range set.CanariesOf(name) {
			if !c.SelectsIn(ns.Labels) {
				continue
			}
			for _, mistake := range c.Version.Mistakes(templates.FromNamespace, ns.Annotations) {
				said.say(fmt.Sprintf("namespace %s: pods with the canary %s of the template %s are refused: %v (%s)", ns.Name, c.Name, name, mistake, reason.BadParameter))
			}
		}
	}
	for _, f := range keys.Check(keys.Rules{Templates: set, Namespace: ns.Labels}, keys.Object{Level: keys.Namespace, Labels: ns.Labels, Annotations: ns.Annotations}) {
		said.say(said.about + ": " + f.String())
	}
	if p.labelOnly(r, ns, set) {
		said.say(fmt.Sprintf("%s: the label %s asks for no sidecar, and nothing else here does: only pods that ask themselves get one. To ask for all pods: kubectl annotate namespace %s %s/inject=TEMPLATE",
			said.about, v1alpha1.InjectionLabel, ns.Name, v1alpha1.Group))
	}
	p.workloads(ctx, &said, ns, set)
	return Allowed(said.warnings...), nil
}

// labelOnly reports whether a write sets the label that has Pillion called, in a namespace where
// nothing asks for sidecars.
func (p preview) labelOnly(r *Review, ns templates.Namespace, set *templates.Set) bool {
	label := v1alpha1.InjectionLabel
	if old, _, err := readObject(r.OldObject, "Namespace"); err == nil && old.Labels.value[label] == ns.Labels[label] {
		return false
	}
	value := ns.Labels[label]
	return (value == v1alpha1.InjectionEnabled || value == v1alpha1.InjectionEnforced) && labels.AskedBy(set, ns) == labels.Nothing
}
