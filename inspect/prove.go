package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// Proof is about one pod that is created by dry run.
type Proof struct {
	*Cluster
	// In is the namespace of the pod, "" for the proof namespace of the installation. Inject is the
	// value of its annotation.
	In, Inject, Prefix string

	// verifies: final pods of the namespace are verified, so one more pod has to be refused.
	verifies bool
}

// Find sets the namespace: the installation's proof namespace, whose template the pod asks for
// unless something else was asked for.
func (p *Proof) Find(ctx context.Context, asked bool) error {
	label := p.Prefix + "/proof=true"
	list, err := p.Names.Resource(NamespacesResource).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("looking for the proof namespace, by its label %s: %w; --namespace NAME needs no such permission", label, err)
	}
	switch len(list.Items) {
	case 0:
		p.In = "default"
	case 1:
		p.In = list.Items[0].Name
		if !asked {
			p.Inject = proof.Template
			p.verifies = list.Items[0].Labels[templates.RequiredLabel(p.Prefix)] == "true"
		}
	default:
		var names []string
		for _, ns := range list.Items {
			names = append(names, ns.Name)
		}
		return fmt.Errorf("looking for the proof namespace: %s have the label %s; choose by --namespace NAME --inject %s", strings.Join(names, ", "), label, proof.Template)
	}
	return nil
}

// Proven is one thing that pods prove which are created by dry run.
type Proven struct {
	Says string `json:"says"`
	// Record is what Pillion noted in a pod that it injected.
	Record json.RawMessage `json:"record,omitempty"`
}

// Run creates the pod, and one without what it has to have. It creates one more for each template
// that a namespace names; excluded namespaces do not count. What they prove counts also where there is an error.
func (p Proof) Run(ctx context.Context, excluded []string) (all []Proven, err error) {
	first, err := p.injected(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, first)
	if p.verifies {
		if _, _, err := p.try(ctx, proof.Bare(p.Prefix)); !proof.Refused(err) {
			return all, errors.Join(fmt.Errorf("a pod in namespace %s without the sidecar of a required template was not refused for it: the API server does not have final pods verified; pillion check says what is wrong with the ValidatingWebhookConfiguration", p.In), err)
		}
		all = append(all, Proven{Says: fmt.Sprintf("a pod in namespace %s without the sidecar of a required template is refused", p.In)})
	}
	named, err := p.named(ctx, usage.Rules{Prefix: p.Prefix, Excluded: excluded})
	if apierrors.IsForbidden(err) {
		return append(all, Proven{Says: fmt.Sprintf("not looked at: the templates that namespaces name, because you may not list namespaces: %v", err)}), nil
	}
	if err != nil {
		return all, fmt.Errorf("looking which templates namespaces name: %w", err)
	}
	there, err := tryNamed(ctx, named, func(ctx context.Context, template string) error {
		_, _, err := p.try(ctx, proof.Pod(p.Prefix, template))
		return err
	})
	return append(all, there...), err
}

// injected creates the pod, and says what it proves.
func (p Proof) injected(ctx context.Context) (Proven, error) {
	pod, warnings, err := p.try(ctx, proof.Pod(p.Prefix, p.Inject))
	if err != nil {
		return Proven{}, p.failed(ctx, err)
	}
	if p.Inject == proof.Template && !proof.Injected(p.Prefix, pod) {
		return Proven{}, fmt.Errorf("a pod in namespace %s came back without the sidecar %s, for which it asked: "+
			"check that Pillion's pods are ready, and that the MutatingWebhookConfiguration is there and has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml)", p.In, proof.Template)
	}
	return p.judge(pod.Annotations[templates.StatusKey(p.Prefix)], warnings)
}

// try creates a pod by dry run. Warnings are those of the API server.
func (p Proof) try(ctx context.Context, pod *corev1.Pod) (made *corev1.Pod, warnings []string, err error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, nil, err
	}
	u, warnings, err := p.DryRun(ctx, p.In, &unstructured.Unstructured{Object: object})
	if err != nil {
		return nil, warnings, err
	}
	made = &corev1.Pod{}
	return made, warnings, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, made)
}

// failed returns an error that says why there is no pod. A refusal with a reason code of
// Pillion's is Pillion's own.
func (p Proof) failed(ctx context.Context, err error) error {
	if code, ok := reason.OfRefusal(err); ok {
		err = fmt.Errorf("the API server reaches Pillion, and Pillion refuses the pod (%s): %w", code, err)
	}
	if proof.Unanswered(err, p.Prefix) {
		err = fmt.Errorf("the API server calls Pillion and gets no answer: see that its pods are ready and verify (kubectl -n NAMESPACE get pods; pillion status): %w", err)
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return fmt.Errorf("creating a pod in namespace %s by dry run: %w", p.In, err)
}

// judge says what the pod's status annotation or the warnings prove: that Pillion was called. It is an
// error if they do not.
func (p Proof) judge(status string, warnings []string) (Proven, error) {
	if status != "" {
		var rec struct{ Templates map[string]any }
		if json.Unmarshal([]byte(status), &rec) != nil {
			status = ""
		}
		says := fmt.Sprintf("a pod in namespace %s came back injected", p.In)
		if names := slices.Sorted(maps.Keys(rec.Templates)); len(names) > 0 {
			says += ", with " + strings.Join(names, ", ")
		}
		return Proven{Says: says, Record: json.RawMessage(status)}, nil
	}
	for _, w := range warnings {
		if _, ok := reason.OfWarning(w); ok {
			return Proven{Says: fmt.Sprintf("a pod in namespace %s came back with Pillion's answer: %s", p.In, w)}, nil
		}
	}
	hint := fmt.Sprintf("check that Pillion's pods are ready, that the namespace is not an excluded one, and that the MutatingWebhookConfiguration has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml); without --inject the namespace has to ask by the annotation %s/inject", p.Prefix)
	if len(warnings) > 0 {
		hint += "; the API server warned: " + strings.Join(warnings, "; ")
	}
	return Proven{}, fmt.Errorf("a pod in namespace %s came back without any sign of Pillion: %s", p.In, hint)
}

// mostNamed bounds how many names are tried, those that most namespaces name first.
const mostNamed = 500

// named returns the namespaces that name each template, by the template's name.
func (p Proof) named(ctx context.Context, rules usage.Rules) (map[string][]string, error) {
	named := map[string][]string{}
	err := p.EachName(ctx, NamespacesResource, func(ns *metav1.PartialObjectMetadata) {
		if ns.DeletionTimestamp != nil {
			return
		}
		for _, name := range rules.Asks(templates.Namespace{Name: ns.Name, Labels: ns.Labels, Annotations: ns.Annotations}).Names {
			named[name] = append(named[name], ns.Name)
		}
	})
	return named, err
}

// tryNamed asks for each template by a function. The error names those that there are not.
func tryNamed(ctx context.Context, named map[string][]string, try func(ctx context.Context, template string) error) (all []Proven, err error) {
	names := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(named[b]), len(named[a])), strings.Compare(a, b))
	})
	if len(names) > mostNamed {
		all = append(all, Proven{Says: fmt.Sprintf("not looked at: %d of the %d templates that namespaces name", len(names)-mostNamed, len(names))})
		names = names[:mostNamed]
	}
	var missing []error
	for _, name := range names {
		err := try(ctx, name)
		if ctx.Err() != nil {
			return all, fmt.Errorf("asking for the template %s, which namespaces name: %w", name, errors.Join(context.Cause(ctx), err))
		}
		// Whatever else is wrong with the pod, the template is there.
		if code, ok := reason.OfRefusal(err); ok && code == reason.UnknownTemplate {
			missing = append(missing, missingTemplate(name, named[name]))
		}
	}
	if len(missing) == 0 {
		all = append(all, Proven{Says: fmt.Sprintf("every template that namespaces name is there: %d", len(names))})
	}
	return all, errors.Join(missing...)
}

func missingTemplate(name string, namespaces []string) error {
	slices.Sort(namespaces)
	return fmt.Errorf("there is no template %s, which these namespaces name, so their pods are refused: %s. Add it (the values library or templates, or a SidecarTemplate), or correct the name; pillion check has the command",
		name, show.Some(namespaces, 5))
}
