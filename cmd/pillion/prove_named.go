package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/injector/proof"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/usage"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// namespacePage is how many namespaces are read at a time.
	namespacePage = 500
	// mostNamed bounds how many names are tried, those that most namespaces name first.
	mostNamed = 500
)

// namedProof proves that the templates that namespaces name are there.
type namedProof struct {
	rules usage.Rules
	// try creates a pod by dry run that asks for a template.
	try func(ctx context.Context, template string) error
}

// proveNamed returns an error that names the templates that namespaces name and there are
// not. A pod in the given namespace asks for each, by dry run. Where namespaces may not be
// listed, it says so to out.
func proveNamed(ctx context.Context, config *rest.Config, rules usage.Rules, namespace string, out io.Writer) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for namespaces: %w", err)
	}
	client, err := clientset.New(config)
	if err != nil {
		return err
	}
	named, err := listNamed(ctx, namespaces, rules)
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(out, "not looked at: the templates that namespaces name, because you may not list namespaces: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	p := namedProof{rules: rules, try: func(ctx context.Context, template string) error {
		_, err := client.Pods(namespace).Create(ctx, proof.Pod(rules.Prefix, template), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}}
	return p.run(ctx, named, out)
}

// listNamed returns the namespaces that name each template, by the template's name.
func listNamed(ctx context.Context, client metadata.Interface, rules usage.Rules) (map[string][]string, error) {
	named := map[string][]string{}
	options := metav1.ListOptions{Limit: namespacePage}
	for {
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing namespaces, to see which templates they name: %w", err)
		}
		for _, ns := range list.Items {
			if ns.DeletionTimestamp != nil {
				continue
			}
			for _, name := range rules.Asks(templates.Namespace{Name: ns.Name, Labels: ns.Labels, Annotations: ns.Annotations}).Names {
				named[name] = append(named[name], ns.Name)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return named, nil
		}
	}
}

func (p namedProof) run(ctx context.Context, named map[string][]string, out io.Writer) error {
	var names []string
	for name := range named {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
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
		err := p.try(ctx, name)
		if ctx.Err() != nil {
			return fmt.Errorf("asking for the template %s, which namespaces name: %w", name, errors.Join(context.Cause(ctx), err))
		}
		// Whatever else is wrong with the pod, the template is there.
		if code, ok := reason.OfRefusal(err); ok && code == reason.UnknownTemplate {
			missing = append(missing, p.missing(name, named[name]))
		}
	}
	if len(missing) == 0 {
		fmt.Fprintf(out, "every template that namespaces name is there: %d\n", len(names))
	}
	return errors.Join(missing...)
}

func (p namedProof) missing(name string, namespaces []string) error {
	slices.Sort(namespaces)
	return fmt.Errorf("there is no template %s, which these namespaces name, so their pods are refused: %s. Add it (the values library or templates, or a SidecarTemplate), or correct the name; pillion check has the command",
		name, show.Some(namespaces, 5))
}
