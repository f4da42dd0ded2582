package chain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/templates"
)

// Objects are a cluster's webhook configurations and admission policies.
type Objects struct {
	MutatingPolicies   []Policy
	MutatingBindings   []Binding
	Mutating           []admissionv1.MutatingWebhookConfiguration
	ValidatingPolicies []Policy
	ValidatingBindings []Binding
	Validating         []admissionv1.ValidatingWebhookConfiguration
	// Unread are the resources that could not be read.
	Unread []string
}

// Policy is a mutating or validating admission policy, as far as it decides whether a pod meets it.
type Policy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		MatchConstraints   *admissionv1.MatchResources        `json:"matchConstraints"`
		MatchConditions    []admissionv1.MatchCondition       `json:"matchConditions"`
		FailurePolicy      *admissionv1.FailurePolicyType     `json:"failurePolicy"`
		ParamKind          *admissionv1.ParamKind             `json:"paramKind"`
		ReinvocationPolicy admissionv1.ReinvocationPolicyType `json:"reinvocationPolicy"`
	} `json:"spec"`
}

// Binding is one of such a policy.
type Binding struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PolicyName        string                      `json:"policyName"`
		MatchResources    *admissionv1.MatchResources `json:"matchResources"`
		ValidationActions []string                    `json:"validationActions"`
	} `json:"spec"`
}

// The resources of bindings.
const (
	MutatingBindings   = "mutatingadmissionpolicybindings"
	ValidatingBindings = "validatingadmissionpolicybindings"
)

// Phase is a part of the way of a pod through an API server. Phases come in this order.
type Phase string

const (
	MutatingPolicies   Phase = "mutating policies"
	MutatingWebhooks   Phase = "mutating webhooks"
	ValidatingPolicies Phase = "validating policies"
	ValidatingWebhooks Phase = "validating webhooks"
)

// Meets says whether a pod meets a webhook or a policy.
type Meets string

const (
	Yes Meets = "yes"
	No  Meets = "no"
	// Depends: on something that is not known, which [Link.Why] names.
	Depends Meets = "depends"
)

// Link is one webhook or policy.
type Link struct {
	Phase Phase `json:"phase"`
	// Configuration is the object that has it, as KIND/NAME, and Name the webhook in it.
	Configuration string `json:"configuration"`
	Name          string `json:"name,omitempty"`
	// Own: it is Pillion's.
	Own   bool  `json:"own"`
	Meets Meets `json:"meets"`
	// Why says which rule or selector decided.
	Why string `json:"why"`
	// FailurePolicy is Fail or Ignore, TimeoutSeconds how long a webhook may take.
	FailurePolicy  string `json:"failurePolicy"`
	TimeoutSeconds int32  `json:"timeoutSeconds,omitempty"`
	// Again says whether it is called again once a later one has changed the pod.
	Again bool `json:"calledAgain"`
	// Actions are what a validating policy's bindings do with a violation.
	Actions []string `json:"actions,omitempty"`
	// Calls is where the API server finds a webhook.
	Calls string `json:"calls,omitempty"`
	// Sees says what Pillion sees of it, and it of Pillion.
	Sees string `json:"sees"`
}

// Chain is what a pod meets.
type Chain struct {
	// Links are in the order of the calls. Policies of one phase have no order among each
	// other, and validating webhooks are called at the same time; both are sorted by name.
	Links []Link `json:"links"`
	// Notes say what cannot be known.
	Notes []string `json:"notes"`
	// Unread are the resources that could not be read, so that links may be missing.
	Unread []string `json:"unread,omitempty"`
}

// Input is a pod that is created.
type Input struct {
	Objects
	// Pod is the pod as it is created, After the pod with what Pillion puts in.
	Pod, After map[string]any
	Namespace  templates.Namespace
	// Prefix is Pillion's.
	Prefix string
}

// hidden is what the API does not show.
const hidden = "webhooks and policies of manifests on the API servers' disks (staticManifestsDir of their admission configuration, Kubernetes 1.36 and later; their names end in .static.k8s.io) are not in the API: " +
	"no command can list them. They come first in each phase. The metrics apiserver_admission_webhook_admission_duration_seconds and apiserver_validating_admission_policy_check_total of the API servers name those that were called"

// builtIn is what no object configures.
const builtIn = "the API server's own admission plugins (LimitRanger, ServiceAccount, Priority, DefaultTolerationSeconds and others before the first phase, PodSecurity and ResourceQuota with the validating ones) are no objects, and are not listed"

// Of returns what the pod meets. An error means that the pod cannot be read.
func Of(in Input) (Chain, error) {
	before, err := newJudge(in.Namespace, in.Pod)
	if err != nil {
		return Chain{}, err
	}
	after := before
	if in.After != nil {
		if after, err = newJudge(in.Namespace, in.After); err != nil {
			return Chain{}, err
		}
	}
	b := builder{Input: in}
	b.policies(MutatingPolicies, "MutatingAdmissionPolicy/", before, in.MutatingPolicies, in.MutatingBindings, MutatingBindings)
	b.webhooks(MutatingWebhooks, before, after)
	b.policies(ValidatingPolicies, "ValidatingAdmissionPolicy/", after, in.ValidatingPolicies, in.ValidatingBindings, ValidatingBindings)
	b.webhooks(ValidatingWebhooks, after, after)
	c := Chain{Links: append([]Link{}, b.links...), Notes: []string{}, Unread: in.Unread}
	b.sees(c.Links)
	c.Notes = append(c.Notes, b.notes(c.Links)...)
	return c, nil
}

// builder gathers the links.
type builder struct {
	Input
	links []Link
}

// policies adds the policies of a phase, by name. Their bindings are of a resource.
func (b *builder) policies(phase Phase, kind string, j *judge, all []Policy, bindings []Binding, resource string) {
	slices.SortFunc(all, func(x, y Policy) int { return cmp.Compare(x.Name, y.Name) })
	for _, p := range all {
		l := Link{Phase: phase, Configuration: kind + p.Name, FailurePolicy: failure(p.Spec.FailurePolicy), Again: p.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy}
		own := slices.DeleteFunc(slices.Clone(bindings), func(b Binding) bool { return b.Spec.PolicyName != p.Name })
		l.Meets, l.Why, l.Actions = j.policy(p, own, slices.Contains(b.Unread, resource))
		b.links = append(b.links, l)
	}
}

// webhooks adds the webhooks of a phase in the order of their calls. Those after Pillion's meet the
// pod with what Pillion put in.
func (b *builder) webhooks(phase Phase, before, after *judge) {
	j, mutating := before, phase == MutatingWebhooks
	for _, w := range check.WebhooksOf(b.Mutating, b.Validating) {
		if w.Mutating != mutating || w.Name == "" {
			continue
		}
		kind := "ValidatingWebhookConfiguration/"
		if mutating {
			kind = "MutatingWebhookConfiguration/"
		}
		l := Link{
			Phase: phase, Configuration: kind + w.Configuration, Name: w.Name, FailurePolicy: failure(w.FailurePolicy), TimeoutSeconds: *w.TimeoutSeconds,
			Again: w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy, Calls: where(w.ClientConfig), Own: b.own(w.Name),
		}
		l.Meets, l.Why = j.webhook(w)
		b.links = append(b.links, l)
		if l.Own && l.Meets == Yes {
			j = after
		}
	}
}

// own reports whether a webhook is Pillion's, by its name: API servers want names of webhooks to
// be domains, and Pillion's end in its prefix.
func (b *builder) own(name string) bool {
	return strings.HasSuffix(name, "."+cmp.Or(b.Prefix, templates.DefaultPrefix))
}

// sees says of each link what Pillion and it see of each other.
func (b *builder) sees(links []Link) {
	first := slices.IndexFunc(links, func(l Link) bool { return l.Own && l.Phase == MutatingWebhooks && l.Meets != No })
	again := first >= 0 && links[first].Again
	for i := range links {
		l := &links[i]
		switch {
		case l.Own:
			l.Sees = "Pillion itself"
		case l.Phase == ValidatingPolicies || l.Phase == ValidatingWebhooks:
			l.Sees = "sees the final pod, with the sidecars; Pillion cannot predict what it refuses"
		case first < 0:
			l.Sees = "Pillion is not called for this pod"
		case i < first:
			l.Sees = "before Pillion, which sees its changes; " + later(l.Again, "sees the sidecars only if it is called again", "never sees the sidecars: it is not called again")
		default:
			l.Sees = "after Pillion: sees the sidecars; " + later(again, "if it changes the pod, Pillion is called again and sees that", "Pillion never sees its changes")
		}
	}
}

func later(again bool, yes, no string) string {
	if again {
		return yes
	}
	return no
}

// notes say what the chain cannot.
func (b *builder) notes(links []Link) []string {
	notes := []string{hidden, builtIn}
	var again []string
	for _, l := range links {
		if l.Meets != No && l.Again {
			again = append(again, cmp.Or(l.Name, l.Configuration))
		}
	}
	if len(again) > 0 {
		notes = append(notes, fmt.Sprintf("called once more, if a later one or an admission plugin changes the pod after them: %s. Each is called twice at most", strings.Join(again, ", ")))
	}
	notes = append(notes, "labels, fields and names that another webhook or policy changes may decide otherwise about a selector or a matchCondition; only Pillion's changes are considered")
	return notes
}

func failure(p *admissionv1.FailurePolicyType) string {
	if p == nil {
		return string(admissionv1.Fail)
	}
	return string(*p)
}

// where says whom an API server calls.
func where(c admissionv1.WebhookClientConfig) string {
	switch {
	case c.Service != nil:
		return "service " + c.Service.Namespace + "/" + c.Service.Name
	case c.URL != nil:
		return *c.URL
	}
	return ""
}

// namespaceLabels are those that selectors see.
func namespaceLabels(ns templates.Namespace) map[string]string {
	all := map[string]string{corev1.LabelMetadataName: ns.Name}
	for k, v := range ns.Labels {
		all[k] = v
	}
	return all
}
