package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/injector/proof"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/usage"
	"github.com/pillion-dev/pillion/templates"
)

// proofLimit bounds the one request of a proof.
const proofLimit = 30 * time.Second

func newProveCommand() *cobra.Command {
	var p proveCommand
	var kubeconfig, kubeContext string
	var excluded []string
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Prove that a cluster's pods go through Pillion",
		Long: `Prove sends one pod to the API server by dry run, so nothing is created. The pod
comes back injected, or with a warning of Pillion's, or with neither. Neither is an
error: the API server does not reach Pillion, or its configuration does not name
Pillion. A refused pod is an error, too; the error says whether Pillion refused it.

Without --namespace the pod is for the proof namespace of the installation, and asks
for the template pillion-proof, which is there for this only: the sidecar has to come
back. A second pod lacks the sidecar of a required template: it has to be refused, if
required templates are verified. You need the permission to list namespaces. Without a
proof namespace, which is what enforcement.mode=Manual gives, the pod is for the
namespace default.

With --namespace the pod has the annotation pillion.dev/inject: "true". With --inject=
(empty) it has no such annotation, and with --inject=NAMES it asks for these templates.

After that, one more pod asks for each template that a namespace names. It is an error
if there is no such template, because pods of that namespace are refused. You need the
permission to list namespaces. Without it, prove says which of these checks it left out.`,
		Example: `  pillion prove
  pillion prove --namespace shop --inject=`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clusterConfig(kubeconfig, kubeContext)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), proofLimit, fmt.Errorf("no answer after %s", proofLimit))
			defer cancel()
			if p.namespace == "" {
				if err := p.find(ctx, config, cmd.Flags().Changed("inject")); err != nil {
					return err
				}
			}
			if err := p.run(ctx, config, cmd.OutOrStdout()); err != nil {
				return err
			}
			return proveNamed(ctx, config, usage.Rules{Prefix: p.prefix, Excluded: excluded}, p.namespace, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: as kubectl has it, or the pod's service account)")
	f.StringVar(&kubeContext, "context", "", contextUsage)
	f.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the pod; Pillion must not be excluded from it (default: the proof namespace)")
	f.StringVar(&p.inject, "inject", "true", "value of the pod's annotation PREFIX/inject; empty: no annotation")
	f.StringVar(&p.prefix, "annotation-prefix", "pillion.dev", "prefix of the annotations")
	f.StringSliceVar(&excluded, "excluded-namespaces", defaultExcluded, "namespaces whose annotations name no template")
	return cmd
}

// proveCommand is about one pod that is created by dry run.
type proveCommand struct {
	namespace, inject, prefix string
	// verifies: final pods of the namespace are verified, so one more pod has to be refused.
	verifies bool
}

// find sets the namespace: the installation's proof namespace, whose template the pod asks for
// unless something else was asked for.
func (p *proveCommand) find(ctx context.Context, config *rest.Config, asked bool) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for namespaces: %w", err)
	}
	label := p.prefix + "/proof=true"
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("looking for the proof namespace, by its label %s: %w; --namespace NAME needs no such permission", label, err)
	}
	switch len(list.Items) {
	case 0:
		p.namespace = "default"
	case 1:
		p.namespace = list.Items[0].Name
		if !asked {
			p.inject = proof.Template
			p.verifies = list.Items[0].Labels[templates.RequiredLabel(p.prefix)] == "true"
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

func (p proveCommand) run(ctx context.Context, config *rest.Config, out io.Writer) error {
	config = rest.CopyConfig(config)
	said := &warningList{}
	config.WarningHandler = said
	client, err := clientset.New(config)
	if err != nil {
		return err
	}
	pod, err := client.Pods(p.namespace).Create(ctx, proof.Pod(p.prefix, p.inject), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return p.failed(ctx, err)
	}
	if p.inject == proof.Template && !proof.Injected(p.prefix, pod) {
		return fmt.Errorf("a pod in namespace %s came back without the sidecar %s, for which it asked: "+
			"check that Pillion's pods are ready, and that the MutatingWebhookConfiguration is there and has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml)", p.namespace, proof.Template)
	}
	verdict, err := p.judge(pod.Annotations[p.prefix+"/status"], said.take())
	if err != nil {
		return err
	}
	fmt.Fprintln(out, verdict)
	if !p.verifies {
		return nil
	}
	if _, err = client.Pods(p.namespace).Create(ctx, proof.Bare(p.prefix), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !proof.Refused(err) {
		return errors.Join(fmt.Errorf("a pod in namespace %s without the sidecar of a required template was not refused for it: the API server does not have final pods verified; pillion check says what is wrong with the ValidatingWebhookConfiguration", p.namespace), err)
	}
	fmt.Fprintf(out, "a pod in namespace %s without the sidecar of a required template is refused\n", p.namespace)
	return nil
}

// failed returns an error that says why there is no pod. A refusal with a reason code of
// Pillion's is Pillion's own.
func (p proveCommand) failed(ctx context.Context, err error) error {
	if code, ok := reason.OfRefusal(err); ok {
		err = fmt.Errorf("the API server reaches Pillion, and Pillion refuses the pod (%s): %w", code, err)
	}
	if proof.Unanswered(err, p.prefix) {
		err = fmt.Errorf("the API server calls Pillion and gets no answer: see that its pods are ready and verify (kubectl -n NAMESPACE get pods; pillion status): %w", err)
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return fmt.Errorf("creating a pod in namespace %s by dry run: %w", p.namespace, err)
}

// judge returns a sentence if the pod's status annotation or the warnings prove that
// Pillion was called, and an error if they do not.
func (p proveCommand) judge(status string, warnings []string) (string, error) {
	if status != "" {
		return fmt.Sprintf("a pod in namespace %s came back injected: %s", p.namespace, status), nil
	}
	for _, w := range warnings {
		if _, ok := reason.OfWarning(w); ok {
			return fmt.Sprintf("a pod in namespace %s came back with Pillion's answer: %s", p.namespace, w), nil
		}
	}
	hint := fmt.Sprintf("check that Pillion's pods are ready, that the namespace is not an excluded one, and that the MutatingWebhookConfiguration has a caBundle (kubectl get mutatingwebhookconfigurations -o yaml); without --inject the namespace has to ask by the annotation %s/inject", p.prefix)
	if len(warnings) > 0 {
		hint += "; the API server warned: " + strings.Join(warnings, "; ")
	}
	return "", fmt.Errorf("a pod in namespace %s came back without a trace of Pillion: %s", p.namespace, hint)
}

// warningList gathers the API server's warnings.
type warningList struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warningList) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warningList) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}
