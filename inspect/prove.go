package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// Run creates the pod, and says what it proves.
func (p Proof) Run(ctx context.Context, out io.Writer) error {
	pod, warnings, err := p.try(ctx, proof.Pod(p.Prefix, p.Inject))
	if err != nil {
		return p.failed(ctx, err)
	}
	if p.Inject == proof.Template && !proof.Injected(p.Prefix, pod) {
		return fmt.Errorf("a pod in namespace %s came back without the sidecar %s, for which it asked: "+
			"check that Pillion's pods are ready, and that the MutatingWebhookConfiguration is there and has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml)", p.In, proof.Template)
	}
	verdict, err := p.judge(pod.Annotations[templates.StatusKey(p.Prefix)], warnings)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, verdict)
	if !p.verifies {
		return nil
	}
	if _, _, err := p.try(ctx, proof.Bare(p.Prefix)); !proof.Refused(err) {
		return errors.Join(fmt.Errorf("a pod in namespace %s without the sidecar of a required template was not refused for it: the API server does not have final pods verified; pillion check says what is wrong with the ValidatingWebhookConfiguration", p.In), err)
	}
	fmt.Fprintf(out, "a pod in namespace %s without the sidecar of a required template is refused\n", p.In)
	return nil
}

// try creates a pod by dry run. Warnings are those of the API server.
func (p Proof) try(ctx context.Context, pod *corev1.Pod) (made *corev1.Pod, warnings []string, err error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, nil, err
	}
	u, warnings, err := p.dryRun(ctx, p.In, &unstructured.Unstructured{Object: object})
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

// judge returns a sentence if the pod's status annotation or the warnings prove that
// Pillion was called, and an error if they do not.
func (p Proof) judge(status string, warnings []string) (string, error) {
	if status != "" {
		return fmt.Sprintf("a pod in namespace %s came back injected: %s", p.In, status), nil
	}
	for _, w := range warnings {
		if _, ok := reason.OfWarning(w); ok {
			return fmt.Sprintf("a pod in namespace %s came back with Pillion's answer: %s", p.In, w), nil
		}
	}
	hint := fmt.Sprintf("check that Pillion's pods are ready, that the namespace is not an excluded one, and that the MutatingWebhookConfiguration has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml); without --inject the namespace has to ask by the annotation %s/inject", p.Prefix)
	if len(warnings) > 0 {
		hint += "; the API server warned: " + strings.Join(warnings, "; ")
	}
	return "", fmt.Errorf("a pod in namespace %s came back without any sign of Pillion: %s", p.In, hint)
}

// mostNamed bounds how many names are tried, those that most namespaces name first.
const mostNamed = 500

// Named returns an error that names the templates that namespaces name and there are not. A pod
// asks for each, by dry run. Where namespaces may not be listed, it says so to out.
func (p Proof) Named(ctx context.Context, excluded []string, out io.Writer) error {
	named, err := p.named(ctx, usage.Rules{Prefix: p.Prefix, Excluded: excluded})
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(out, "not looked at: the templates that namespaces name, because you may not list namespaces: %v\n", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking which templates namespaces name: %w", err)
	}
	return tryNamed(ctx, named, out, func(ctx context.Context, template string) error {
		_, _, err := p.try(ctx, proof.Pod(p.Prefix, template))
		return err
	})
}

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

// tryNamed asks for each template by a function.
func tryNamed(ctx context.Context, named map[string][]string, out io.Writer, try func(ctx context.Context, template string) error) error {
	names := slices.SortedFunc(maps.Keys(named), func(a, b string) int {
		if d := len(named[b]) - len(named[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	if len(names) > mostNamed {
		fmt.Fprintf(out, "not looked at: %d of the %d templates that namespaces name\n", len(names)-mostNamed, len(names))
		names = names[:mostNamed]
	}
	var missing []error
	for _, name := range names {
		err := try(ctx, name)
		if ctx.Err() != nil {
			return fmt.Errorf("asking for the template %s, which namespaces name: %w", name, errors.Join(context.Cause(ctx), err))
		}
		// Whatever else is wrong with the pod, the template is there.
		if code, ok := reason.OfRefusal(err); ok && code == reason.UnknownTemplate {
			missing = append(missing, missingTemplate(name, named[name]))
		}
	}
	if len(missing) == 0 {
		fmt.Fprintf(out, "every template that namespaces name is there: %d\n", len(names))
	}
	return errors.Join(missing...)
}

func missingTemplate(name string, namespaces []string) error {
	slices.Sort(namespaces)
	return fmt.Errorf("there is no template %s, which these namespaces name, so their pods are refused: %s. Add it (the values library or templates, or a SidecarTemplate), or correct the name; pillion check has the command",
		name, show.Some(namespaces, 5))
}
