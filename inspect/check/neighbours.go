package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// injector is another program that adds sidecars to pods.
type injector struct {
	name string
	// webhooks are what the names of its MutatingWebhookConfigurations begin with.
	webhooks []string
	// templates of these names give a pod the same.
	templates []string
	// asks reports whether a namespace asks for it. Nil: pods ask themselves, which namespaces do
	// not tell.
	asks func(labels, annotations map[string]string) bool
	// stop is what takes the request off a namespace, for kubectl; or it says what a pod asks by.
	stop string
}

// injectors are those that are widely used, with what their documentation says.
var injectors = []injector{
	{name: "Istio", webhooks: []string{"istio-sidecar-injector", "istio-revision-tag"}, templates: []string{"istio-proxy"}, stop: "label namespace %s istio-injection- istio.io/rev-",
		asks: func(labels, _ map[string]string) bool {
			return labels["istio-injection"] == "enabled" || labels["istio.io/rev"] != "" && labels["istio-injection"] != "disabled"
		}},
	{name: "Linkerd", webhooks: []string{"linkerd-proxy-injector"}, templates: []string{"linkerd-proxy"}, stop: "annotate namespace %s linkerd.io/inject-",
		asks: func(_, annotations map[string]string) bool {
			return slices.Contains([]string{"enabled", "ingress"}, annotations["linkerd.io/inject"])
		}},
	{name: "Kuma", webhooks: []string{"kuma-admission-mutating", "kong-mesh-admission-mutating"}, templates: []string{"kuma-sidecar"}, stop: "label namespace %s kuma.io/sidecar-injection-",
		asks: func(labels, _ map[string]string) bool {
			return slices.Contains([]string{"enabled", "true"}, labels["kuma.io/sidecar-injection"])
		}},
	{name: "Consul", webhooks: []string{"consul-connect-injector", "consul-consul-connect-injector"}, templates: []string{"consul-dataplane"}, stop: "consul.hashicorp.com/connect-inject"},
	{name: "Dapr", webhooks: []string{"dapr-sidecar-injector"}, templates: []string{"daprd"}, stop: "dapr.io/enabled"},
	{name: "Vault", webhooks: []string{"vault-agent-injector"}, templates: []string{"vault-agent"}, stop: "vault.hashicorp.com/agent-inject"},
	{name: "OpenTelemetry", webhooks: []string{"opentelemetry-operator"}, templates: []string{"otel-collector"}, stop: "annotate namespace %s sidecar.opentelemetry.io/inject-",
		asks: annotated("sidecar.opentelemetry.io/inject")},
	{name: "OpenTelemetry", webhooks: []string{"opentelemetry-operator"}, templates: []string{"opentelemetry-java"}, stop: "annotate namespace %s instrumentation.opentelemetry.io/inject-java-",
		asks: annotated("instrumentation.opentelemetry.io/inject-java")},
	{name: "Datadog", webhooks: []string{"datadog-webhook"}, templates: []string{"opentelemetry-java"}, stop: "admission.datadoghq.com/enabled"},
}

// annotated reports whether an annotation of a namespace is set, to something else than false.
func annotated(key string) func(labels, annotations map[string]string) bool {
	return func(_, annotations map[string]string) bool {
		return annotations[key] != "" && annotations[key] != "false"
	}
}

// installed returns the entries of the injector for pods.
func (i injector) installed(all []Webhook) []Webhook {
	var entries []Webhook
	for _, w := range all {
		if w.Mutating && slices.ContainsFunc(i.webhooks, func(prefix string) bool { return strings.HasPrefix(w.Configuration, prefix) }) {
			entries = append(entries, w)
		}
	}
	return entries
}

func injectorsApart(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	var found []Finding
	for _, i := range injectors {
		if len(i.installed(all)) == 0 || !slices.ContainsFunc(i.templates, func(name string) bool { _, ok := set.Place(name); return ok }) {
			continue
		}
		for _, ns := range namespaces {
			if !s.Usage().Counts(ns.Namespace) || i.asks != nil && !i.asks(ns.Labels, ns.Annotations) {
				continue
			}
			for _, name := range inForce(s.Usage(), set, ns) {
				if slices.Contains(i.templates, name) {
					found = append(found, i.clash(ns, name))
				}
			}
		}
	}
	return capped(found, "namespaces with two injectors of the same")
}

// clash returns the finding of a namespace in which a template and the injector do the same.
func (i injector) clash(ns labels.Namespace, template string) Finding {
	if i.asks == nil {
		return warning(fmt.Sprintf("namespace %s has the template %s in force, and %s is installed, which does the same for pods with %s: such a pod gets both", ns.Name, template, i.name, i.stop),
			fmt.Sprintf("kubectl -n %s get pods -o yaml | grep %s", ns.Name, i.stop))
	}
	return failed(fmt.Sprintf("namespace %s has the template %s in force, and asks %s for the same: its pods get both, or are refused. The command leaves it to the template", ns.Name, template, i.name),
		"kubectl "+fmt.Sprintf(i.stop, ns.Name))
}

// vpaWebhook is what the name of the VerticalPodAutoscaler's configuration begins with.
const vpaWebhook = "vpa-webhook"

func autoscalersApart(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	if !slices.ContainsFunc(all, func(w Webhook) bool { return w.Mutating && strings.HasPrefix(w.Configuration, vpaWebhook) }) {
		return nil
	}
	if err := cmp.Or(f.Autoscalers.Err, asked(f)); err != nil {
		return []Finding{unread(err)}
	}
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	var found []Finding
	for _, ns := range namespaces {
		for _, a := range f.Autoscalers.Value {
			if a.Namespace != ns.Name || a.off() || !s.Usage().Counts(ns.Namespace) {
				continue
			}
			if names := inForce(s.Usage(), set, ns); len(names) > 0 {
				found = append(found, warning(fmt.Sprintf("VerticalPodAutoscaler %s in namespace %s sets the resources of all containers, those of sidecars (%s) too: give it a policy for each container of the app, and mode Off for \"*\"", a.Name, ns.Name, show.Some(names, mostNamed)),
					fmt.Sprintf("kubectl -n %s edit vpa %s", ns.Name, a.Name), "kubectl explain vpa.spec.resourcePolicy.containerPolicies"))
			}
		}
	}
	return capped(found, "such autoscalers")
}

// lastInOrder names the webhooks that API servers call after Pillion. That is no fault: Pillion is
// called again where they change a pod.
func lastInOrder(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	if len(s.Mutating) == 0 {
		return nil
	}
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	injected := map[string]bool{}
	for _, ns := range namespaces {
		injected[ns.Name] = s.Usage().Counts(ns.Namespace) && ns.Labels[templates.InjectionLabel(s.Prefix)] != "" && len(inForce(s.Usage(), set, ns)) > 0
	}
	var found []Finding
	for _, w := range all {
		if !w.Mutating || s.ours(w) || w.Configuration <= slices.Max(s.Mutating) {
			continue
		}
		var same []string
		called := w.Called(admissionv1.Create, "pods")
		for _, ns := range namespaces {
			if injected[ns.Name] && called(ns.Labels) {
				same = append(same, ns.Name)
			}
		}
		if len(same) > 0 {
			found = append(found, fine(fmt.Sprintf("%s is called after Pillion for the pods of %s: its changes of a sidecar stay, and a required template refuses such a pod", w, show.Some(same, mostNamed))))
		}
	}
	return capped(found, "such entries")
}

func webhooksApart(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	home := map[string]string{"kubernetes.io/metadata.name": s.Namespace}
	for _, ns := range f.Namespaces.Value {
		if ns.Name == s.Namespace {
			home = ns.Labels
		}
	}
	var found []Finding
	for _, w := range all {
		if s.ours(w) {
			if w.fails() && w.Called(admissionv1.Create, "pods")(home) {
				found = append(found, failed(fmt.Sprintf("%s is called for Pillion's own pods with failurePolicy Fail: once Pillion is down it cannot start again", w), s.replace()))
			}
			continue
		}
		own := w.ObjectSelector == nil || f.Deployment.Err != nil || selects(w.ObjectSelector, f.Deployment.Value.PodLabels)
		if own && w.fails() && w.Called(admissionv1.Create, "pods")(home) {
			found = append(found, warning(fmt.Sprintf("%s is called for the pods of namespace %s, with failurePolicy Fail: while that webhook is down, Pillion's pods cannot start. Leave the namespace out of its namespaceSelector", w, s.Namespace),
				fmt.Sprintf("kubectl edit %s %s", w.Kind(), w.Configuration)))
		}
	}
	return capped(found, "such entries")
}
