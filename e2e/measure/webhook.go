package measure

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodWebhook is a mutating webhook for the creation of pods in a namespace, which fails closed.
func PodWebhook(name string, client admissionregistrationv1.WebhookClientConfig, namespace string, again admissionregistrationv1.ReinvocationPolicyType) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: client, Rules: []admissionregistrationv1.RuleWithOperations{PodCreation},
		NamespaceSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		FailurePolicy:      new(admissionregistrationv1.Fail),
		SideEffects:        new(admissionregistrationv1.SideEffectClassNone),
		ReinvocationPolicy: &again, AdmissionReviewVersions: []string{"v1"},
	}
}

// PodCreation is the rule of who wants to hear of new pods.
var PodCreation = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
}
