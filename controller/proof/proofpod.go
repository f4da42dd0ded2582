package proof

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Template is the name of the template that the proof requests, and of its sidecar.
const Template = "pillion-proof"

// Manifest returns the template, for pods of the namespace only.
func Manifest(namespace string) []byte {
	return fmt.Appendf(nil, `apiVersion: %s
kind: SidecarTemplate
metadata:
  name: %s
spec:
  description: The sidecar of the pods by which Pillion proves that it works. They are never created.
  availableTo:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: %s
  inject:
    spec:
      initContainers:
      - name: %[2]s
        image: proof.invalid/sidecar:1
        restartPolicy: Always
        securityContext:
          allowPrivilegeEscalation: false
          capabilities:
            drop: [ALL]
`, v1alpha1.APIVersion, Template, namespace)
}

// Pod returns the pod of a proof, which requests [Template]. It meets the Pod Security Standard
// "restricted", because its namespace may enforce that. It mounts no token, so that the API
// server's own admission does not change it.
func Pod() *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pillion-proof-", Annotations: map[string]string{v1alpha1.InjectKey: Template}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:  "proof",
				Image: "proof.invalid/proof:1",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// Validate returns nil if the API server's answer to the creation of [Pod] in a namespace, by dry
// run, proves that pods are injected: the pod has the record and the sidecar of [Template]. Otherwise
// it returns the reason. It wraps the error of the API server.
func Validate(namespace string, pod *corev1.Pod, err error) error {
	if err != nil {
		return fmt.Errorf("creating a pod in namespace %s by dry run: %w", namespace, err)
	}
	if pod.Annotations[v1alpha1.StatusKey] == "" || !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Template }) {
		return fmt.Errorf("a pod that was created in namespace %s by dry run came back without the sidecar %s: the API server does not call Pillion for it", namespace, Template)
	}
	return nil
}
