package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/offline/admissionpolicy"
	"github.com/pillion-dev/pillion/templates"
)

// factsTimeout bounds all that a check reads.
const factsTimeout = time.Minute

// reviewsAtOnce is how many access reviews are asked for at a time.
const reviewsAtOnce = 8

// Facts reads what the checks judge, at the same time where nothing waits for another. What cannot
// be read is in the facts. Version is that of this program.
func (c *Cluster) Facts(ctx context.Context, version string, now time.Time) *check.Facts {
	ctx, cancel := context.WithTimeoutCause(ctx, factsTimeout, fmt.Errorf("no answer within %s", factsTimeout))
	defer cancel()
	f := &check.Facts{Now: now, Version: version}
	f.Kubernetes = known(KubernetesVersion(ctx, c.Version))
	if f.Kubernetes.Err != nil && !apierrors.IsForbidden(f.Kubernetes.Err) {
		return f
	}
	r, err := c.release(ctx)
	f.Settings, f.Deployment = known(r.Settings, err), known(r.facts(len(c.URLs) > 0), err)
	if err != nil {
		return f
	}
	var all sync.WaitGroup
	all.Go(func() { f.Replicas = known(c.Replicas(ctx)) })
	all.Go(func() { f.Webhooks = known(c.Webhooks(ctx)) })
	all.Go(func() { f.Rendered = known(c.rendered(ctx, r.Service)) })
	all.Go(func() { f.Denied = known(c.denied(ctx, r.Needs)) })
	all.Go(func() {
		account, err := one[corev1.ServiceAccount](ctx, c, resourceOf("", "v1", "serviceaccounts"), c.Namespace, r.account())
		f.Account = known(account.CreationTimestamp.Time, err)
	})
	all.Go(func() { f.Policies = known(c.policies(ctx)) })
	definitions := resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions")
	all.Go(func() { f.CRD = known(one[check.CRD](ctx, c, definitions, "", store.Resource+"."+r.Prefix)) })
	all.Go(func() {
		f.OwnCRD = known(one[check.CRD](ctx, c, definitions, "", store.NamespacedResource+"."+r.Prefix))
	})
	all.Go(func() { f.Revisions = known(c.revisions(ctx, r.Release)) })
	all.Go(func() { f.Namespaces = known(c.ownedNamespaces(ctx, r.Prefix)) })
	all.Go(func() { f.Autoscalers = known(c.autoscalers(ctx)) })
	all.Go(func() {
		f.Service = known(one[corev1.Service](ctx, c, resourceOf("", "v1", "services"), c.Namespace, r.Service))
	})
	all.Go(func() {
		f.Networks = known(listed[networkingv1.NetworkPolicy](ctx, c, resourceOf("networking.k8s.io", "v1", "networkpolicies"), c.Namespace, metav1.ListOptions{}))
	})
	all.Go(func() {
		f.Budgets = known(listed[policyv1.PodDisruptionBudget](ctx, c, resourceOf("policy", "v1", "poddisruptionbudgets"), c.Namespace, metav1.ListOptions{}))
	})
	all.Go(func() {
		s, err := c.settingsOf(ctx, r)
		f.Templates = known(s.Templates, err)
		if err == nil && r.NamespacedTemplates {
			own := known(c.ownTemplates(ctx, s.Compile))
			f.Templates.Value, f.OwnUnread = s.Templates.WithNamespaces(own.Value), own.Err
		}
	})
	all.Wait()
	var depending []string
	for _, ns := range f.Namespaces.Value {
		if r.Settings.Depends(ns) != "" {
			depending = append(depending, ns.Name)
		}
	}
	f.Pods = known(c.Count(ctx, depending))
	if f.Floors.Err = cmp.Or(f.Policies.Err, f.Templates.Err); f.Floors.Err == nil {
		f.Floors.Value = floors(ctx, f.Policies.Value, f.Templates.Value, r.Settings)
	}
	f.Worn = known(c.worn(ctx, r.Prefix, f.Unknown(r.Settings)))
	return f
}

// known returns the result of a function as a fact, whose error names a right that is missing.
func known[T any](value T, err error) check.Known[T] { return check.Read(value, rights.Named(err)) }

// mostWorn bounds how many names are looked for among pods: a check tells of fewer.
const mostWorn = 20

// worn returns those of the names that are no template's whose sidecars pods have.
func (c *Cluster) worn(ctx context.Context, prefix string, unknown []check.Named) ([]check.Named, error) {
	var worn []check.Named
	for _, named := range unknown[:min(len(unknown), mostWorn)] {
		pods, err := c.Names.Resource(PodsResource).Namespace(named.Namespace).List(ctx, metav1.ListOptions{LabelSelector: templates.HashLabel(prefix, named.Template), Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("listing pods of namespace %s: %w", named.Namespace, err)
		}
		if len(pods.Items) > 0 {
			worn = append(worn, named)
		}
	}
	return worn, nil
}

// Webhooks reads the entries of all webhook configurations.
func (c *Cluster) Webhooks(ctx context.Context) ([]check.Webhook, error) {
	mutating, err := listed[admissionv1.MutatingWebhookConfiguration](ctx, c, resourceOf(admissionv1.GroupName, "v1", "mutatingwebhookconfigurations"), "", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	validating, err := listed[admissionv1.ValidatingWebhookConfiguration](ctx, c, resourceOf(admissionv1.GroupName, "v1", "validatingwebhookconfigurations"), "", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return check.WebhooksOf(mutating, validating), nil
}

// rendered reads the entries that the chart renders, from its ConfigMap.
func (c *Cluster) rendered(ctx context.Context, service string) ([]check.Webhook, error) {
	config, err := one[corev1.ConfigMap](ctx, c, resourceOf("", "v1", "configmaps"), c.Namespace, service+"-webhooks")
	if err != nil {
		return nil, err
	}
	read := func(file string, into any) error {
		if err := yaml.Unmarshal([]byte(config.Data[file]), into); err != nil {
			return fmt.Errorf("reading %s of ConfigMap %s in namespace %s: %w", file, config.Name, c.Namespace, err)
		}
		return nil
	}
	mutating := make([]admissionv1.MutatingWebhookConfiguration, 1)
	if err := read("mutating.yaml", &mutating[0]); err != nil {
		return nil, err
	}
	var validating []admissionv1.ValidatingWebhookConfiguration
	if _, ok := config.Data["validating.yaml"]; ok {
		validating = make([]admissionv1.ValidatingWebhookConfiguration, 1)
		if err := read("validating.yaml", &validating[0]); err != nil {
			return nil, err
		}
	}
	return check.WebhooksOf(mutating, validating), nil
}

// denied asks the API server which rights Pillion's service account lacks.
func (c *Cluster) denied(ctx context.Context, n check.Needs) ([]rights.Right, error) {
	lacking := make([]bool, len(n.Rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, right := range n.Rights {
		group.Go(func() error {
			may, err := c.may(ctx, n, right)
			lacking[i] = !may
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("asking for the rights of %s: %w", n.Account, err)
	}
	var denied []rights.Right
	for i, right := range n.Rights {
		if lacking[i] {
			denied = append(denied, right)
		}
	}
	return denied, nil
}

// errNoReview is the error of an API server that answers no access review.
var errNoReview = errors.New("the API server's answer has no status")

// may reports whether Pillion's service account has a right.
func (c *Cluster) may(ctx context.Context, n check.Needs, right rights.Right) (bool, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: n.Account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + n.Namespace, "system:authenticated"}, ResourceAttributes: right.Attributes(),
		},
	})
	if err != nil {
		return false, err
	}
	answer, err := c.Objects.Resource(resourceOf(authorizationv1.GroupName, "v1", "subjectaccessreviews")).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	if _, ok := answer.Object["status"].(map[string]any); !ok {
		return false, errNoReview
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}

func (c *Cluster) policies(ctx context.Context) (p check.Policies, err error) {
	if p.All, err = listed[admissionv1.ValidatingAdmissionPolicy](ctx, c, resourceOf(admissionv1.GroupName, "v1", "validatingadmissionpolicies"), "", metav1.ListOptions{}); err == nil {
		p.Bindings, err = listed[admissionv1.ValidatingAdmissionPolicyBinding](ctx, c, resourceOf(admissionv1.GroupName, "v1", "validatingadmissionpolicybindings"), "", metav1.ListOptions{})
	}
	return p, err
}

// floors returns the admission policies of required templates: those that there are, and those
// that there could be.
func floors(ctx context.Context, p check.Policies, set *templates.Set, s check.Settings) []check.Floor {
	options := admissionpolicy.Options{Prefix: s.Prefix, Excluded: s.Excluded}
	var all []check.Floor
	add := func(template string, there *admissionv1.ValidatingAdmissionPolicy) {
		f := check.Floor{Template: template, Policy: admissionpolicy.Name(s.Prefix, template), There: there != nil}
		if there != nil {
			f.ByHelm = there.Labels["app.kubernetes.io/managed-by"] == "Helm"
		}
		entry, ok := set.Get(template)
		switch {
		case !ok:
			f.Gone = true
		case entry.Template == nil:
			return // what is wrong with the template is another check's
		default:
			want, err := admissionpolicy.Of(ctx, entry.Template, options, set.CanariesOf(template)...)
			if err != nil {
				f.Impossible = err.Error()
				break
			}
			f.OfChart = !strings.HasPrefix(entry.Source, templates.ClusterSource)
			f.Current = there != nil && equality.Semantic.DeepEqual(there.Spec, want.Policy.Spec)
			f.Bound = slices.ContainsFunc(p.Bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
				return equality.Semantic.DeepEqual(b.Spec, want.Binding.Spec)
			})
		}
		all = append(all, f)
	}
	there := map[string]bool{}
	for i := range p.All {
		if name, ours := admissionpolicy.TemplateOf(s.Prefix, p.All[i].Name); ours {
			there[name] = true
			add(name, &p.All[i])
		}
	}
	for _, place := range set.Required() {
		if name := set.At(place).Name; !there[name] {
			add(name, nil)
		}
	}
	slices.SortFunc(all, func(a, b check.Floor) int { return strings.Compare(a.Template, b.Template) })
	return all
}

// ownedNamespaces reads the metadata of all namespaces, and whose Pillion's labels there are.
func (c *Cluster) ownedNamespaces(ctx context.Context, prefix string) ([]labels.Namespace, error) {
	var all []labels.Namespace
	keys := []string{templates.InjectionLabel(prefix), templates.RequiredLabel(prefix)}
	err := c.EachName(ctx, NamespacesResource, func(ns *metav1.PartialObjectMetadata) {
		if ns.DeletionTimestamp == nil {
			all = append(all, labels.Owned(ns, keys))
		}
	})
	return all, err
}

// autoscalers reads the VerticalPodAutoscalers: none where there is no such kind.
func (c *Cluster) autoscalers(ctx context.Context) ([]check.Autoscaler, error) {
	all, err := listed[check.Autoscaler](ctx, c, resourceOf("autoscaling.k8s.io", "v1", "verticalpodautoscalers"), "", metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}

// revisions reads those of the Helm release, without what their Secrets hold. A release that is kept
// elsewhere (HELM_DRIVER) has none.
func (c *Cluster) revisions(ctx context.Context, release string) ([]check.Revision, error) {
	if release == "" {
		return nil, nil
	}
	list, err := c.Names.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the Helm release %s: %w", release, err)
	}
	var all []check.Revision
	for _, secret := range list.Items {
		if number, err := strconv.Atoi(secret.Labels["version"]); err == nil {
			all = append(all, check.Revision{Number: number, Status: secret.Labels["status"], Created: secret.CreationTimestamp.Time})
		}
	}
	return all, nil
}

// Replicas asks the replicas.
func (c *Cluster) Replicas(ctx context.Context) ([]state.Replica, error) {
	replicas, _, err := c.FindReplicas(ctx) // those that do not run are the Deployment's check
	if err != nil {
		return nil, err
	}
	return AskAll(ctx, replicas), nil
}
