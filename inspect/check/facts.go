package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	pillionlabels "github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
)

// Known is a fact, or why it could not be read. A [rights.MissingError] skips the checks that
// need the fact.
type Known[T any] struct {
	Value T
	Err   error
}

// Read returns the result of a function as a fact.
func Read[T any](value T, err error) Known[T] { return Known[T]{value, err} }

// Facts are what was read of a cluster.
type Facts struct {
	Now time.Time
	// Version is that of the program that checks.
	Version    string
	Kubernetes Known[templates.KubernetesVersion]
	Settings   Known[Settings]
	Deployment Known[Deployment]
	// Revisions are those of the Helm release, none without one.
	Revisions Known[[]Revision]
	Service   Known[corev1.Service]
	Replicas  Known[[]state.Replica]
	// Webhooks are the entries of all webhook configurations, the mutating ones in the order of
	// calls first.
	Webhooks Known[[]Webhook]
	// Account is when Pillion's ServiceAccount was made.
	Account Known[time.Time]
	// Rendered are the entries that the chart renders with the installation's values.
	Rendered Known[[]Webhook]
	// Denied are those of [Settings.Rights] that Pillion's service account has not.
	Denied   Known[[]rights.Right]
	Policies Known[Policies]
	// Floors are the admission policies of required templates, by the templates' names.
	Floors   Known[[]Floor]
	Budgets  Known[[]policyv1.PodDisruptionBudget]
	Networks Known[[]networkingv1.NetworkPolicy]
	// CRD is that of SidecarTemplates, OwnCRD that of NamespacedSidecarTemplates.
	CRD, OwnCRD Known[CRD]
	// Templates are those in force, as this program compiles them, with those of namespaces. OwnUnread
	// says why the latter could not be read.
	Templates  Known[*templates.Set]
	OwnUnread  error
	Namespaces Known[[]pillionlabels.Namespace]
	// Pods has the numbers of pods of the namespaces that [Settings.Depends] names.
	Pods        Known[map[string]int]
	Autoscalers Known[[]Autoscaler]
	// Worn are those of [Facts.Unknown] whose sidecars pods of the namespace have.
	Worn Known[[]Named]
}

// ErrAbsent says that Pillion's Deployment is not there, or is not the only one.
var ErrAbsent = errors.New("looking for Pillion's Deployment")

// Settings are what the server is told, as its Deployment has it.
type Settings struct {
	Namespace, Service, Prefix string
	// Release is the Helm release; "" if Helm did not install Pillion.
	Release string
	// ServerSideHelm: Helm wrote the objects by server-side apply, as Helm 4 does. Then it has to be
	// told to take back fields that others changed.
	ServerSideHelm bool
	// Account is the service account's user, as API servers name it.
	Account string
	// Excluded are the namespaces that Pillion keeps out of, its own among them.
	Excluded []string
	// All: the pods of every namespace pass that does not opt out.
	All                  bool
	ClusterTemplates     bool
	NamespacedTemplates  bool
	KeepRequired         bool
	Mutating, Validating []string
	Provider             string
	Publishes            bool
	LeafDuration         time.Duration
	ProofNamespace       string
	// Enforcement says which namespaces become enforced.
	Enforcement pillionlabels.Enforcement
	// MirrorPolicy is the policy that holds the server to the mirrors of templates of files; ""
	// if it makes none.
	MirrorPolicy string
	// Policies: the chart made its admission policies.
	Policies bool
	Rights   []rights.Right
}

// restore are the commands that bring back what the release made and somebody took away: a
// rollback to the revision that is installed.
func (s Settings) restore() []string {
	if s.Release == "" {
		return []string{"kubectl apply -f MANIFESTS"}
	}
	return []string{s.rollback(fmt.Sprintf("$(helm -n %s history %s --max 1 | awk 'END {print $1}')", s.Namespace, s.Release))}
}

// rollback is the command that brings a revision of the release back.
func (s Settings) rollback(revision string) string {
	command := fmt.Sprintf("helm -n %s rollback %s %s", s.Namespace, s.Release, revision)
	if s.ServerSideHelm {
		command += " --force-conflicts"
	}
	return command
}

// replace is the command that takes back what somebody changed in the objects by which API servers
// know Pillion. A rollback does not: Helm leaves alone what none of its manifests has named, such as
// one more entry. caBundles stay, which the chart leaves to others: pods come meanwhile.
func (s Settings) replace() string {
	made := "kubectl create -f MANIFESTS"
	if s.Release != "" {
		made = fmt.Sprintf("helm -n %s get manifest %s | kubectl create -f -", s.Namespace, s.Release)
	}
	bundle := fmt.Sprintf(`kubectl get mutatingwebhookconfigurations -o jsonpath='{.items[*].webhooks[?(@.name=="enforced.%s")].clientConfig.caBundle}'`, s.Prefix)
	return made + ` -l app.kubernetes.io/component=registration --dry-run=client -o json | sed 's|"clientConfig": {|&"caBundle":"'$(` + bundle + `)'",|' | kubectl replace -f -`
}

// renew are the commands for what somebody took away or changed. What is gone cannot be replaced, which
// kubectl says; and Helm 4 cannot write a list back in which somebody has items of their own.
func (s Settings) renew() []string { return append([]string{s.replace()}, s.restore()...) }

// defaultNamespace is the one that the command line takes for Pillion's.
const defaultNamespace = "pillion-system"

// command returns a command of pillion about this installation.
func (s Settings) command(command string) string {
	if s.Namespace == defaultNamespace {
		return command
	}
	return command + " --pillion-namespace " + s.Namespace
}

// prefixFlag is what tells a command of pillion the prefix.
func (s Settings) prefixFlag() string {
	if s.Prefix == templates.DefaultPrefix {
		return ""
	}
	return " --annotation-prefix " + s.Prefix
}

// getTemplate is the command that reads a SidecarTemplate. Installations with other prefixes
// have a resource of the same name.
func (s Settings) getTemplate(name string) string {
	return "kubectl get sidecartemplates." + s.Prefix + " " + name + " -o yaml"
}

// Usage says which namespaces use templates.
func (s Settings) Usage() usage.Rules { return usage.Rules{Prefix: s.Prefix, Excluded: s.Excluded} }

// Labels are the rules of the labels that Pillion manages on namespaces.
func (s Settings) Labels() pillionlabels.Rules {
	return pillionlabels.Rules{Prefix: s.Prefix, Excluded: s.Excluded, Required: s.KeepRequired, Enforcement: s.Enforcement}
}

// Registration is what API servers ask before they call Pillion.
func (s Settings) Registration() entries.Registration {
	return entries.Registration{Prefix: s.Prefix, All: s.All, Excluded: s.Excluded}
}

func (s Settings) inject() string { return templates.InjectKey(s.Prefix) }

// logs is the command that shows what the replicas say.
func (s Settings) logs() string {
	return fmt.Sprintf("kubectl -n %s logs -l %s --tail=100 --prefix", s.Namespace, s.selector())
}

// selector selects the pods of the release.
func (s Settings) selector() string {
	if s.Release == "" {
		return "app.kubernetes.io/name=pillion"
	}
	return "app.kubernetes.io/instance=" + s.Release
}

// Deployment is Pillion's own.
type Deployment struct {
	Name                       string
	PodLabels                  map[string]string
	Wanted, Available, Updated int32
	// WebhookPort is the port of the container that API servers reach by the Service.
	WebhookPort int32
	// Given: other replicas were given to ask, so those of the Deployment do not count.
	Given bool
}

// Webhook is one entry of a webhook configuration, with the API's defaults. A validating one is read
// as a mutating one, which has all of its fields.
type Webhook struct {
	Mutating      bool
	Configuration string
	admissionv1.MutatingWebhook
}

// Kind returns the resource of the configuration, for kubectl.
func (w Webhook) Kind() string {
	if w.Mutating {
		return "mutatingwebhookconfiguration"
	}
	return "validatingwebhookconfiguration"
}

func (w Webhook) String() string {
	return fmt.Sprintf("entry %s of %s/%s", w.Name, w.Kind(), w.Configuration)
}

// Called returns a function that reports whether API servers call the entry for what is done to
// a resource, in a namespace with the given labels. There may be thousands of them.
func (w Webhook) Called(operation admissionv1.OperationType, resource string) func(namespace map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	about := slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool {
		return has(r.Operations, operation) && has(r.APIGroups, "") && (has(r.Resources, resource) || slices.Contains(r.Resources, "*/*"))
	})
	return func(namespace map[string]string) bool {
		return about && err == nil && selector.Matches(labels.Set(namespace))
	}
}

func has[T ~string](list []T, item T) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}

// WebhooksOf returns the entries of configurations, the mutating ones in the order of calls. A
// configuration without any is one without a name.
func WebhooksOf(mutating []admissionv1.MutatingWebhookConfiguration, validating []admissionv1.ValidatingWebhookConfiguration) []Webhook {
	var all []Webhook
	slices.SortStableFunc(mutating, func(a, b admissionv1.MutatingWebhookConfiguration) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(validating, func(a, b admissionv1.ValidatingWebhookConfiguration) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range mutating {
		for _, w := range c.Webhooks {
			byDefault(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
			all = append(all, Webhook{true, c.Name, defaulted(w)})
		}
		if len(c.Webhooks) == 0 {
			all = append(all, Webhook{Mutating: true, Configuration: c.Name})
		}
	}
	for _, c := range validating {
		for _, w := range c.Webhooks {
			all = append(all, Webhook{false, c.Name, defaulted(admissionv1.MutatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
				SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})})
		}
		if len(c.Webhooks) == 0 {
			all = append(all, Webhook{Configuration: c.Name})
		}
	}
	return all
}

// defaulted returns an entry with the API's defaults in the place of what it leaves out.
func defaulted(w admissionv1.MutatingWebhook) admissionv1.MutatingWebhook {
	byDefault(&w.FailurePolicy, admissionv1.Fail)
	byDefault(&w.MatchPolicy, admissionv1.Equivalent)
	byDefault(&w.NamespaceSelector, metav1.LabelSelector{})
	byDefault(&w.ObjectSelector, metav1.LabelSelector{})
	byDefault(&w.TimeoutSeconds, 10)
	if w.ClientConfig.Service != nil {
		byDefault(&w.ClientConfig.Service.Port, webhookServicePort)
	}
	for i := range w.Rules {
		byDefault(&w.Rules[i].Scope, admissionv1.AllScopes)
	}
	return w
}

// byDefault sets a field that is not there.
func byDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// fails reports whether what the entry is called for fails where nobody answers.
func (w Webhook) fails() bool {
	return w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Fail
}

// Policies are the ValidatingAdmissionPolicies of a cluster, with their bindings.
type Policies struct {
	All      []admissionv1.ValidatingAdmissionPolicy
	Bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// has reports whether there is a policy of that name, and whether a binding has it deny.
func (p Policies) has(name string) (there, denies bool) {
	return slices.ContainsFunc(p.All, func(policy admissionv1.ValidatingAdmissionPolicy) bool { return policy.Name == name }),
		slices.ContainsFunc(p.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		})
}

// Floor is the admission policy of a required template, by which API servers hold pods to it
// without Pillion. Either there is one, or the template is required and could have one.
type Floor struct {
	Template, Policy string
	// Gone: there is no such template.
	Gone bool
	// Impossible says why there can be no policy; "" if there can.
	Impossible string
	// There: the policy exists. Current: it is what 'pillion policy' prints now. Bound: so is a
	// binding of it.
	There, Current, Bound bool
	// ByHelm: the policy is an object of a Helm release. OfChart: the template is one of the
	// chart's values, whose policy the chart makes if it is told to.
	ByHelm, OfChart bool
}

// CRD is what counts of a CustomResourceDefinition.
type CRD struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions     []metav1.Condition `json:"conditions"`
		StoredVersions []string           `json:"storedVersions"`
	} `json:"status"`
}

// Autoscaler is what counts of a VerticalPodAutoscaler.
type Autoscaler struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		UpdatePolicy struct {
			UpdateMode string `json:"updateMode"`
		} `json:"updatePolicy"`
		ResourcePolicy struct {
			ContainerPolicies []ContainerPolicy `json:"containerPolicies"`
		} `json:"resourcePolicy"`
	} `json:"spec"`
}

// ContainerPolicy is the policy of a container, or of all others for "*".
type ContainerPolicy struct {
	ContainerName string `json:"containerName"`
	Mode          string `json:"mode"`
}

// off reports whether the autoscaler changes no container, but those with a policy of their own.
func (a Autoscaler) off() bool {
	return a.Spec.UpdatePolicy.UpdateMode == "Off" || slices.Contains(a.Spec.ResourcePolicy.ContainerPolicies, ContainerPolicy{"*", "Off"})
}

// inForce returns the names of the templates in force in a namespace.
func inForce(rules usage.Rules, set *templates.Set, ns pillionlabels.Namespace) []string {
	count := rules.Count(set.In(ns.Name), slices.Values([]templates.Namespace{ns.Namespace}))
	names := slices.Sorted(maps.Keys(count.In))
	return slices.DeleteFunc(names, func(name string) bool { return count.In[name] == 0 })
}

// mostNamed bounds how many of a kind a finding names.
const mostNamed = 3

// selects reports whether a selector selects labels. A selector that cannot be read selects
// nothing.
func selects(s *metav1.LabelSelector, has map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(has))
}
