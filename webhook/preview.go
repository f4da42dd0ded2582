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

// PreviewOptions configure the preview. All fields are required but Workloads and Rate.
type PreviewOptions struct {
	Pods Pods
	// Created returns the pod template of a workload, and the pod that the workload's controller
	// creates from it in a namespace. For a pod, both are the pod. Both are nil for an object
	// without a pod. The error says why the pod template cannot be read.
	Created func(workload map[string]any, namespace string) (template, pod map[string]any, err error)
	// Workloads calls f with the workloads of a namespace, as JSON, until ctx ends. It returns the
	// kinds that could not be listed, with the reason. It is nil if Pillion may not read workloads.
	Workloads func(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) (unchecked []string)
	// Rate bounds the previews. Default: 100 in a second, after a burst of 200.
	Rate *rate.Limiter
}

// Bounds of previews. A preview beyond the bounds is skipped, because real pods need the
// processor and the memory.
const (
	// previewsPerSecond is the rate of a replica, after a burst of previewBurst. The preview of
	// an ordinary Deployment takes about a millisecond.
	previewsPerSecond = 100
	previewBurst      = 200
	// previewWait is how long a preview waits for earlier ones.
	previewWait = 100 * time.Millisecond
	// previewTime bounds the work of a preview. API servers wait for a second.
	previewTime = 700 * time.Millisecond
	// previewCopies is the number of copies of a decoded workload in memory: the workload, the
	// pod of its controller, both in Kubernetes' types, and the pipeline's work.
	previewCopies = 5
)

type preview struct {
	options PreviewOptions
	through entries.Entry
	recent  recentWrites
}

// NewPreview returns a webhook for each entry that warns the author of a workload, a pod or a
// namespace of Pillion's outcome for its pods. Controllers get warnings, too, but show them to
// nobody. The webhooks refuse nothing, and share their bounds.
func NewPreview(o PreviewOptions, entries []entries.Entry) []Webhook {
	if o.Rate == nil {
		o.Rate = rate.NewLimiter(previewsPerSecond, previewBurst)
	}
	all, once := make([]Webhook, len(entries)), newRecentWrites()
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
		return Skipped(), nil // the reviews of the pods will report the error
	}
	if !p.acquireSlot(ctx, r) || rawjson.Exceeds(r.Object, slotMemory/previewCopies) {
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
	return p.workload(ctx, r, ns, workloadWrite{object, template, created})
}

// acquireSlot waits for the slot of previews, and reports whether the review got it.
func (p preview) acquireSlot(ctx context.Context, r *Review) bool {
	wait, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	return r.memory.acquire(wait, r.Namespace, slotMemory) == nil
}

// workloadWrite is a workload under review, with its pod template and the pod that its
// controller creates. For a pod, all three are the pod.
type workloadWrite struct{ object, template, created map[string]any }

func (p preview) workload(ctx context.Context, r *Review, ns templates.Namespace, w workloadWrite) (Response, error) {
	request := injector.Request{Operation: "CREATE", Pod: w.created, Namespace: ns, Templates: p.options.Pods.Templates().In(ns.Name), Now: p.options.Pods.now()}
	out, err := p.options.Pods.Pipeline.Inject(ctx, request)
	if ctx.Err() != nil {
		return Skipped(), nil // pods have a longer timeout
	}
	if err != nil {
		return Response{}, fmt.Errorf("previewing the pods of %s %s: %w", r.Kind.Kind, r.objectName(), err)
	}
	own, template := unstructured.Unstructured{Object: w.object}, unstructured.Unstructured{Object: w.template}
	warnings := warningList{subject: r.Kind.Kind + " " + nameOf(own), name: nameOf(own), review: r}
	if r.Kind.Kind == "CronJob" && out.Command != "" { // the Job that the pod names is made up
		out.Command = p.options.Pods.Pipeline.ExplainCommand(ns.Name, "cronjob/"+warnings.name)
	}
	if r.Kind.Kind != "Pod" {
		warnings.addOutcome(out)
	}
	rules := keys.Rules{Templates: request.Templates, Namespace: ns.Labels, Concerned: concerned(out)}
	if r.Kind.Kind != "Pod" {
		warnings.addWorkloadKeys(keys.Check(rules, keys.Object{
			Level: keys.Workload, Kind: r.Kind.Kind, Labels: own.GetLabels(), Annotations: own.GetAnnotations(), PodLabels: template.GetLabels(), PodAnnotations: template.GetAnnotations(),
		}))
	}
	for _, f := range keys.Check(rules, keys.Object{Level: keys.Pod, Labels: template.GetLabels(), Annotations: template.GetAnnotations()}) {
		warnings.addForPods(f.String())
	}
	return Allowed(warnings.warnings...), nil
}

// concerned returns a function that reports whether the outcome names a template. It returns nil,
// which stands for all templates, if one rule decided for the whole pod.
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

// maxMistaken bounds the templates whose parameters on a namespace are checked.
const maxMistaken = 20

// namespace answers for a namespace, with warnings about its annotation, parameters and keys.
func (p preview) namespace(ctx context.Context, r *Review) (Response, error) {
	if labelMemory*len(r.Object) > slotMemory || !p.acquireSlot(ctx, r) {
		return Skipped(), nil
	}
	object, _, err := readObject(r.Object, "Namespace")
	if err != nil {
		return Response{}, err
	}
	ns := templates.Namespace{Name: cmp.Or(r.Name, object.Name), Labels: object.Labels.value, Annotations: object.Annotations.value}
	set := p.options.Pods.Templates().In(ns.Name)
	warnings := warningList{subject: "namespace " + ns.Name, name: ns.Name, review: r}
	asked := p.options.Pods.Pipeline.DecideForNamespace(ns, set)
	asked.Command = "" // it is about a pod
	warnings.addOutcome(asked)
	checked := 0
	for _, name := range namedBy(ns.Annotations) {
		e, ok := set.Get(name)
		if !ok || e.Template == nil {
			continue
		}
		if checked++; checked > maxMistaken || ctx.Err() != nil {
			break
		}
		for _, mistake := range e.Template.Mistakes(templates.FromNamespace, ns.Annotations) {
			warnings.add(fmt.Sprintf("namespace %s: pods with the template %s are refused: %v (%s)", ns.Name, name, mistake, reason.BadParameter))
		}
		for _, c := range set.CanariesOf(name) {
			if !c.SelectsIn(ns.Labels) {
				continue
			}
			for _, mistake := range c.Version.Mistakes(templates.FromNamespace, ns.Annotations) {
				warnings.add(fmt.Sprintf("namespace %s: pods with the canary %s of the template %s are refused: %v (%s)", ns.Name, c.Name, name, mistake, reason.BadParameter))
			}
		}
	}
	for _, f := range keys.Check(keys.Rules{Templates: set, Namespace: ns.Labels}, keys.Object{Level: keys.Namespace, Labels: ns.Labels, Annotations: ns.Annotations}) {
		warnings.add(warnings.subject + ": " + f.String())
	}
	if p.labelOnly(r, ns, set) {
		warnings.add(fmt.Sprintf("%s: the label %s requests no sidecar, and nothing else in the namespace does, so only pods with an annotation of their own get one. To request one for all pods: kubectl annotate namespace %s %s/inject=TEMPLATE",
			warnings.subject, v1alpha1.InjectionLabel, ns.Name, v1alpha1.Group))
	}
	p.workloads(ctx, &warnings, ns, set)
	return Allowed(warnings.warnings...), nil
}

// labelOnly reports whether a write sets Pillion's injection label in a namespace that requests no
// sidecars.
func (p preview) labelOnly(r *Review, ns templates.Namespace, set *templates.Set) bool {
	label := v1alpha1.InjectionLabel
	if old, _, err := readObject(r.OldObject, "Namespace"); err == nil && old.Labels.value[label] == ns.Labels[label] {
		return false
	}
	value := ns.Labels[label]
	return (value == v1alpha1.InjectionEnabled || value == v1alpha1.InjectionEnforced) && labels.FindRequester(set, ns) == labels.Nothing
}
