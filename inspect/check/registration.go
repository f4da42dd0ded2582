package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/inspect"
)

var (
	mutatingConfigurations   = admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validatingConfigurations = admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
)

// registration compares the webhook configurations and the Service with those that the chart renders.
func registration(ctx context.Context, in *installation) ([]Finding, error) {
	found, _, err := in.compareRendered(ctx, in.replace(), map[string]schema.GroupVersionResource{
		"MutatingWebhookConfiguration":   mutatingConfigurations,
		"ValidatingWebhookConfiguration": validatingConfigurations,
		"Service":                        corev1.SchemeGroupVersion.WithResource("services"),
	})
	if err != nil {
		return found, err
	}
	copies, err := in.findCopies(ctx)
	for _, c := range copies {
		if len(found) > 0 { // pods may get their sidecars only by the copy
			c.Message, c.Remedy = c.Message+". Repair the faults above first", ""
		}
		found = append(found, c)
	}
	return found, err
}

// policies compares the chart's admission policies in the cluster with the rendered ones.
func policies(ctx context.Context, in *installation) ([]Finding, error) {
	found, n, err := in.compareRendered(ctx, in.replace(), map[string]schema.GroupVersionResource{
		"ValidatingAdmissionPolicy":        policyResource,
		"ValidatingAdmissionPolicyBinding": bindingResource,
	})
	if err == nil && n == 0 {
		found = append(found, warning("the chart makes no ValidatingAdmissionPolicies (rbac.admissionPolicy=false): a thief of Pillion's token is a cluster admin in effect, and everybody who may write a namespace may set Pillion's labels", "kubectl get validatingadmissionpolicies"))
	}
	return found, err
}

// compareRendered compares objects of the kinds with the chart's, and returns the number of the chart's objects. The
// remedy is for edited objects.
func (in *installation) compareRendered(ctx context.Context, remedy string, kinds map[string]schema.GroupVersionResource) (found []Finding, n int, err error) {
	rendered, err := in.rendered()
	if err != nil {
		return nil, 0, err
	}
	var edited, missing []Finding
	for _, want := range rendered {
		resource, ok := kinds[want.GetKind()]
		if !ok {
			continue
		}
		n++
		name := strings.ToLower(want.GetKind()) + "/" + want.GetName()
		live, err := in.cluster.Objects.Resource(resource).Namespace(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, failed("there is no "+name, in.restore()))
			continue
		}
		if err != nil {
			return nil, n, err
		}
		for _, d := range differences("", fieldsOf(live), fieldsOf(&want)) {
			edited = append(edited, failed(name+": "+d.String(), remedy))
		}
	}
	return append(limit(edited, "differences"), limit(missing, "missing objects")...), n, nil
}

// fieldsOf returns the compared fields of an object, as JSON: all but its metadata, its status and
// caBundles, which are set at run time.
func fieldsOf(u *unstructured.Unstructured) map[string]any {
	var object map[string]any
	if text, err := u.MarshalJSON(); err != nil || json.Unmarshal(text, &object) != nil {
		return nil
	}
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(object, field)
	}
	webhooks, _ := object["webhooks"].([]any)
	for _, item := range webhooks {
		if entry, ok := item.(map[string]any); ok {
			unstructured.RemoveNestedField(entry, "clientConfig", "caBundle")
		}
	}
	return object
}

// findCopies finds other configurations whose entries call Pillion.
func (in *installation) findCopies(ctx context.Context) (found []Finding, err error) {
	for _, resource := range []schema.GroupVersionResource{mutatingConfigurations, validatingConfigurations} {
		all, err := inspect.List[admissionv1.ValidatingWebhookConfiguration](ctx, in.cluster, resource, "", metav1.ListOptions{}) // the other kind has the same fields
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			calls := slices.DeleteFunc(slices.Clone(c.Webhooks), func(w admissionv1.ValidatingWebhook) bool { return !in.isService(w.ClientConfig.Service) })
			if len(calls) == 0 || c.Name == in.release.Certificates.WebhookConfiguration {
				continue
			}
			name := strings.TrimSuffix(resource.Resource, "s") + "/" + c.Name
			remedy := "kubectl delete " + name
			if len(calls) < len(c.Webhooks) { // only its owner may delete the other entries
				remedy = "kubectl edit " + name
			}
			found = append(found, failed(fmt.Sprintf("%s is not part of the chart, and its entry %s calls Pillion: Pillion is called twice or for more pods, and nobody renews the caBundle", name, calls[0].Name), remedy))
		}
	}
	return limit(found, "configurations that call Pillion"), nil
}

// isService reports whether an entry calls Pillion's Service.
func (in *installation) isService(s *admissionv1.ServiceReference) bool {
	return s != nil && s.Namespace == in.release.Server.Namespace && s.Name == in.release.Server.Service
}
