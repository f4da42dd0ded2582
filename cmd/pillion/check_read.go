package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/viper"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/check"
	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/clientset/rights"
	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/offline/admissionpolicy"
	"github.com/pillion-dev/pillion/templates"
)

// checkTimeout bounds all that a check reads.
const checkTimeout = time.Minute

// reviewsAtOnce is how many access reviews are asked for at a time.
const reviewsAtOnce = 8

// checkReader reads the facts of a check with the user's own rights.
type checkReader struct {
	where   installation
	client  clientset.Interface
	objects dynamic.Interface
	names   metadata.Interface
	// pods returns how many pods namespaces have.
	pods func(context.Context, []string) (map[string]int, error)
	// version reads the API server's /version.
	version func(context.Context) ([]byte, error)
	// replicas returns those to ask.
	replicas func(context.Context) ([]replica, error)
}

// readFacts connects to the cluster, and reads what the checks judge. Its error is one of the
// connection's settings; what cannot be read is in the facts.
func readFacts(ctx context.Context, where installation, now time.Time) (*check.Facts, error) {
	config, err := clusterConfig(where.kubeconfig, where.context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	client, err := clientset.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for settings: %w", err)
	}
	names, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for namespaces: %w", err)
	}
	pods, err := counter(config)
	if err != nil {
		return nil, err
	}
	r := checkReader{where: where, client: client, objects: objects, names: names, pods: pods, version: client.ServerVersion, replicas: func(ctx context.Context) ([]replica, error) {
		_, replicas, err := where.open(ctx, io.Discard) // those that do not run are the Deployment's check
		return replicas, err
	}}
	return r.read(ctx, now), nil
}

// read reads everything, at the same time where nothing waits for another.
func (r checkReader) read(ctx context.Context, now time.Time) *check.Facts {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("no answer within %s", checkTimeout))
	defer cancel()
	f := &check.Facts{Now: now, Version: version}
	f.Kubernetes = check.Read(readKubeVersion(ctx, r.version))
	if f.Kubernetes.Err = rights.Named(f.Kubernetes.Err); f.Kubernetes.Err != nil && !apierrors.IsForbidden(f.Kubernetes.Err) {
		return f
	}
	deployment, needs, err := r.settings(ctx)
	f.Settings, f.Deployment = check.Read(needs.Settings, err), check.Read(deployment, err)
	if err != nil {
		return f
	}
	namespace, prefix := needs.Namespace, needs.Prefix
	var all sync.WaitGroup
	all.Go(func() { f.Replicas = check.Read(r.answers(ctx)) })
	all.Go(func() { f.Webhooks = check.Read(r.webhooks(ctx)) })
	all.Go(func() { f.Rendered = check.Read(r.rendered(ctx, namespace, needs.Service)) })
	all.Go(func() { f.Denied = check.Read(r.denied(ctx, needs)) })
	all.Go(func() {
		account, err := one[corev1.ServiceAccount](ctx, r.objects, resourceOf("", "v1", "serviceaccounts"), namespace, needs.Account[strings.LastIndexByte(needs.Account, ':')+1:])
		f.Account = check.Read(account.CreationTimestamp.Time, err)
	})
	var policies admissionPolicies
	all.Go(func() {
		var err error
		policies, err = r.policies(ctx)
		f.Policies = check.Read(policies.facts(), err)
	})
	all.Go(func() { f.CRD = check.Read(r.crd(ctx, prefix)) })
	all.Go(func() { f.Revisions = check.Read(r.revisions(ctx, namespace, needs.Release)) })
	all.Go(func() { f.Namespaces = check.Read(r.namespaces(ctx, prefix)) })
	all.Go(func() { f.Autoscalers = check.Read(r.autoscalers(ctx)) })
	all.Go(func() {
		f.Service = check.Read(one[corev1.Service](ctx, r.objects, resourceOf("", "v1", "services"), namespace, needs.Service))
	})
	all.Go(func() {
		f.Networks = check.Read(listed[networkingv1.NetworkPolicy](ctx, r.objects, resourceOf("networking.k8s.io", "v1", "networkpolicies"), namespace))
	})
	all.Go(func() {
		budgets, err := listed[policyv1.PodDisruptionBudget](ctx, r.objects, resourceOf("policy", "v1", "poddisruptionbudgets"), namespace)
		f.Budgets.Err = err
		for _, b := range budgets {
			f.Budgets.Value = append(f.Budgets.Value, check.Budget{Name: b.Name, Selector: b.Spec.Selector, Allowed: b.Status.DisruptionsAllowed})
		}
	})
	all.Go(func() {
		s, err := readServerSettings(ctx, r.objects, r.where.place())
		f.Templates = check.Read(s.set, rights.Named(err))
	})
	all.Wait()
	var depending []string
	for _, ns := range f.Namespaces.Value {
		if needs.Depends(ns) != "" {
			depending = append(depending, ns.Name)
		}
	}
	f.Pods.Value, err = r.pods(ctx, depending)
	f.Pods.Err = rights.Named(err)
	if f.Floors.Err = cmp.Or(f.Policies.Err, f.Templates.Err); f.Floors.Err == nil {
		f.Floors.Value = policies.floors(ctx, f.Templates.Value, needs.Settings)
	}
	f.Worn = check.Read(r.worn(ctx, prefix, f.Unknown(needs.Settings)))
	return f
}

// mostWorn bounds how many names are looked for among pods: a check tells of fewer.
const mostWorn = 20

// worn returns those of the names that are no template's whose sidecars pods have.
func (r checkReader) worn(ctx context.Context, prefix string, unknown []check.Named) ([]check.Named, error) {
	var worn []check.Named
	for _, named := range unknown[:min(len(unknown), mostWorn)] {
		pods, err := r.names.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(named.Namespace).List(ctx, metav1.ListOptions{LabelSelector: named.Template + "." + prefix + "/hash", Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("listing pods of namespace %s: %w", named.Namespace, rights.Named(err))
		}
		if len(pods.Items) > 0 {
			worn = append(worn, named)
		}
	}
	return worn, nil
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// one reads an object.
func one[T any](ctx context.Context, client dynamic.Interface, of schema.GroupVersionResource, namespace, name string) (object T, err error) {
	u, err := client.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object)
	}
	if err != nil {
		return object, fmt.Errorf("reading %s %s: %w", of.Resource, name, rights.Named(err))
	}
	return object, nil
}

// listed reads the objects of a namespace, of all for "".
func listed[T any](ctx context.Context, client dynamic.Interface, of schema.GroupVersionResource, namespace string) ([]T, error) {
	list, err := client.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", of.Resource, rights.Named(err))
	}
	all := make([]T, len(list.Items))
	for i, u := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", of.Resource, u.GetName(), err)
		}
	}
	return all, nil
}

// settings reads what the server is told.
func (r checkReader) settings(ctx context.Context) (check.Deployment, check.Needs, error) {
	d, container, err := ownDeployment(ctx, r.objects, r.where.place())
	if err != nil {
		if errors.Is(err, errNoDeployment) {
			err = check.AbsentError{Err: err}
		}
		return check.Deployment{}, check.Needs{}, rights.Named(err)
	}
	v, err := servedFlags(container)
	if err != nil {
		return check.Deployment{}, check.Needs{}, fmt.Errorf("reading the arguments of Deployment %s in namespace %s: %w", d.Name, r.where.namespace, err)
	}
	deployment := check.Deployment{
		Name: d.Name, PodLabels: d.Spec.Template.Labels, Wanted: 1, Available: d.Status.AvailableReplicas, Updated: d.Status.UpdatedReplicas, Given: len(r.where.urls) > 0,
	}
	if d.Spec.Replicas != nil {
		deployment.Wanted = *d.Spec.Replicas
	}
	return deployment, needsOf(v, d, r.where.namespace), nil
}

// needsOf returns the settings of a server, and what it needs rights for.
func needsOf(v *viper.Viper, d deployed, namespace string) check.Needs {
	certs, enforcement := readCerts(v), readEnforcement(v)
	n := check.Needs{
		CASecret: certs.CASecret, ServingSecret: certs.ServingSecret, CreateCASecret: certs.CreateCASecret,
		UninstallMarker: v.GetString("uninstall-marker"), InUse: v.GetString("in-use-record"), ReadWorkloads: v.GetBool("read-workloads"),
		CountPods: v.GetDuration("count-pods-every") > 0, OwnerEvents: v.GetBool("owner-events"), PreviewLimits: v.GetBool("preview-limits"),
		Settings: check.Settings{
			Namespace: namespace, Service: v.GetString("service"), Prefix: v.GetString("annotation-prefix"),
			Account:          "system:serviceaccount:" + namespace + ":" + cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default"),
			Excluded:         append(list(v, "excluded-namespaces"), namespace),
			All:              v.GetString("webhook-scope") == scopeAll,
			ClusterTemplates: v.GetBool("cluster-templates"), KeepRequired: v.GetBool("keep-required-label"),
			Mutating: certs.WebhookConfigurations, Validating: certs.ValidatingWebhookConfigurations,
			Provider: certs.Provider, Publishes: certs.Provider == selfSigned || certs.PublishCA, LeafDuration: certs.LeafDuration,
			MirrorPolicy: v.GetString("mirror-policy"),
		},
	}
	n.Policies = d.Annotations[n.Prefix+"/admission-policies"] == "wanted"
	n.Match = enforcement.Match
	if enforcement.proves() {
		n.ProofNamespace = enforcement.ProofNamespace
	}
	if d.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		n.Release = d.Labels["app.kubernetes.io/instance"]
		n.ServerSideHelm = slices.ContainsFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == "helm" && e.Operation == metav1.ManagedFieldsOperationApply
		})
	}
	n.Rights = check.ServerRights(n)
	return n
}

// answers asks the replicas.
func (r checkReader) answers(ctx context.Context) ([]check.Replica, error) {
	replicas, err := r.replicas(ctx)
	if err != nil {
		return nil, rights.Named(err)
	}
	var all []check.Replica
	for _, a := range askAll(ctx, replicas) {
		all = append(all, a.facts())
	}
	return all, nil
}

// facts is what a replica says of itself, for checks.
func (a answers) facts() check.Replica {
	said := a.report()
	r := check.Replica{
		Name: a.name, Created: a.created, Unauthorized: a.unauthorized(), Missing: a.missing, Answers: a.metrics != nil, Templates: said.Templates, Broken: said.Broken, CacheAge: map[string]time.Duration{}, Proven: said.EnforcementProven,
		CertificateEnds: said.CertificateEnds, Problems: slices.Concat(a.problems(), a.labelProblems(), a.inUseProblems()), Published: map[string]bool{},
	}
	for cache, seconds := range said.CacheAgeSeconds {
		r.CacheAge[cache] = time.Duration(seconds * float64(time.Second))
	}
	for _, m := range a.metrics[buildInfoMetric].GetMetric() {
		r.Version = labelsOf(m)["version"]
	}
	for _, m := range a.metrics["pillion_proof_failing"].GetMetric() {
		if numberOf(m) > 0 {
			r.ProofFailing = append(r.ProofFailing, labelsOf(m)["outcome"])
		}
	}
	for _, m := range a.metrics[published].GetMetric() {
		labels := labelsOf(m)
		r.Published[strings.ToLower(labels["kind"])+"/"+labels["configuration"]] = numberOf(m) > 0
	}
	return r
}

// webhooks reads the entries of all webhook configurations.
func (r checkReader) webhooks(ctx context.Context) ([]check.Webhook, error) {
	mutating, err := r.client.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing mutatingwebhookconfigurations: %w", rights.Named(err))
	}
	validating, err := r.client.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing validatingwebhookconfigurations: %w", rights.Named(err))
	}
	return check.WebhooksOf(mutating.Items, validating.Items), nil
}

// rendered reads the entries that the chart renders, from its ConfigMap.
func (r checkReader) rendered(ctx context.Context, namespace, service string) ([]check.Webhook, error) {
	c, err := one[corev1.ConfigMap](ctx, r.objects, resourceOf("", "v1", "configmaps"), namespace, service+"-webhooks")
	if err != nil {
		return nil, err
	}
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating []admissionv1.ValidatingWebhookConfiguration
	if err := yaml.Unmarshal([]byte(c.Data["mutating.yaml"]), &mutating); err != nil {
		return nil, fmt.Errorf("reading mutating.yaml of ConfigMap %s in namespace %s: %w", c.Name, namespace, err)
	}
	if text, ok := c.Data["validating.yaml"]; ok {
		validating = make([]admissionv1.ValidatingWebhookConfiguration, 1)
		if err := yaml.Unmarshal([]byte(text), &validating[0]); err != nil {
			return nil, fmt.Errorf("reading validating.yaml of ConfigMap %s in namespace %s: %w", c.Name, namespace, err)
		}
	}
	return check.WebhooksOf([]admissionv1.MutatingWebhookConfiguration{mutating}, validating), nil
}

// denied asks the API server which rights Pillion's service account lacks.
func (r checkReader) denied(ctx context.Context, n check.Needs) ([]rights.Right, error) {
	lacking := make([]bool, len(n.Rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i, right := range n.Rights {
		group.Go(func() error {
			review := &authorizationv1.SubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: n.Account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + n.Namespace, "system:authenticated"}, ResourceAttributes: right.Attributes(),
				},
			}
			may, err := reviewed(ctx, r.objects, review)
			lacking[i] = !may
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("asking for the rights of %s: %w", n.Account, rights.Named(err))
	}
	var denied []rights.Right
	for i, right := range n.Rights {
		if lacking[i] {
			denied = append(denied, right)
		}
	}
	return denied, nil
}

// admissionPolicies are the ValidatingAdmissionPolicies of a cluster, with their bindings.
type admissionPolicies struct {
	all      []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

func (r checkReader) policies(ctx context.Context) (p admissionPolicies, err error) {
	if p.all, err = listed[admissionv1.ValidatingAdmissionPolicy](ctx, r.objects, resourceOf(admissionv1.GroupName, "v1", "validatingadmissionpolicies"), ""); err == nil {
		p.bindings, err = listed[admissionv1.ValidatingAdmissionPolicyBinding](ctx, r.objects, resourceOf(admissionv1.GroupName, "v1", "validatingadmissionpolicybindings"), "")
	}
	return p, err
}

// facts says of each policy whether a binding has it deny.
func (p admissionPolicies) facts() []check.Policy {
	var policies []check.Policy
	for _, policy := range p.all {
		policies = append(policies, check.Policy{Name: policy.Name, Denies: slices.ContainsFunc(p.bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == policy.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		})})
	}
	return policies
}

// floors returns the admission policies of required templates: those that there are, and those
// that there could be.
func (p admissionPolicies) floors(ctx context.Context, set *templates.Set, s check.Settings) []check.Floor {
	options := admissionpolicy.Options{Prefix: s.Prefix, Excluded: s.Excluded}
	var floors []check.Floor
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
			want, err := admissionpolicy.Of(ctx, entry.Template, options)
			if err != nil {
				f.Impossible = err.Error()
				break
			}
			f.OfChart = !strings.HasPrefix(entry.Source, templates.ClusterSource)
			f.Current = there != nil && equality.Semantic.DeepEqual(there.Spec, want.Policy.Spec)
			f.Bound = slices.ContainsFunc(p.bindings, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
				return equality.Semantic.DeepEqual(b.Spec, want.Binding.Spec)
			})
		}
		floors = append(floors, f)
	}
	there := map[string]bool{}
	for i := range p.all {
		if name, ours := admissionpolicy.TemplateOf(s.Prefix, p.all[i].Name); ours {
			there[name] = true
			add(name, &p.all[i])
		}
	}
	for _, place := range set.Required() {
		if name := set.At(place).Name; !there[name] {
			add(name, nil)
		}
	}
	slices.SortFunc(floors, func(a, b check.Floor) int { return strings.Compare(a.Template, b.Template) })
	return floors
}

// crd reads the CRD of SidecarTemplates.
func (r checkReader) crd(ctx context.Context, prefix string) (check.CRD, error) {
	type definition struct {
		Spec struct {
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
	name := "sidecartemplates." + prefix
	d, err := one[definition](ctx, r.objects, resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", name)
	c := check.CRD{Name: name, Stored: d.Status.StoredVersions}
	for _, v := range d.Spec.Versions {
		if v.Served {
			c.Served = append(c.Served, v.Name)
		}
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == "Established" {
			c.Established, c.Why = condition.Status == metav1.ConditionTrue, condition.Message
		}
	}
	return c, err
}

// namespaces reads the metadata of all namespaces.
func (r checkReader) namespaces(ctx context.Context, prefix string) ([]kept.Namespace, error) {
	var all []kept.Namespace
	keys := []string{templates.InjectionLabel(prefix), templates.RequiredLabel(prefix)}
	options := metav1.ListOptions{Limit: namespacePage}
	for {
		page, err := r.names.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing namespaces: %w", rights.Named(err))
		}
		for i := range page.Items {
			ns := &page.Items[i]
			if ns.DeletionTimestamp == nil {
				all = append(all, kept.Owned(ns, keys))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// autoscalers reads the VerticalPodAutoscalers: none where there is no such kind.
func (r checkReader) autoscalers(ctx context.Context) ([]check.Autoscaler, error) {
	type autoscaler struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			UpdatePolicy struct {
				UpdateMode string `json:"updateMode"`
			} `json:"updatePolicy"`
			ResourcePolicy struct {
				ContainerPolicies []struct {
					ContainerName string `json:"containerName"`
					Mode          string `json:"mode"`
				} `json:"containerPolicies"`
			} `json:"resourcePolicy"`
		} `json:"spec"`
	}
	all, err := listed[autoscaler](ctx, r.objects, resourceOf("autoscaling.k8s.io", "v1", "verticalpodautoscalers"), "")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	var list []check.Autoscaler
	for _, a := range all {
		as := check.Autoscaler{Namespace: a.Namespace, Name: a.Name, Mode: a.Spec.UpdatePolicy.UpdateMode, Containers: map[string]string{}}
		for _, p := range a.Spec.ResourcePolicy.ContainerPolicies {
			as.Containers[p.ContainerName] = p.Mode
		}
		list = append(list, as)
	}
	return list, err
}

// errNoReview is the error of an API server that answers no access review.
var errNoReview = errors.New("the API server's answer has no status")

// reviewed reports whether an access review allows what it asks for.
func reviewed(ctx context.Context, client dynamic.Interface, review *authorizationv1.SubjectAccessReview) (bool, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return false, err
	}
	answer, err := client.Resource(resourceOf(authorizationv1.GroupName, "v1", "subjectaccessreviews")).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	status, ok := answer.Object["status"].(map[string]any)
	if !ok {
		return false, errNoReview
	}
	allowed, _ := status["allowed"].(bool)
	return allowed, nil
}
