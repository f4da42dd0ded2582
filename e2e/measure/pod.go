package measure

import (
	_ "embed"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TokenPath is where the service account's token is mounted.
const TokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

//go:embed pod.yaml
var podYAML []byte

// readPod reads pod.yaml once: a load asks for many pods.
var readPod = sync.OnceValue(func() *corev1.Pod {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(podYAML, pod); err != nil {
		panic("pod.yaml: " + err.Error())
	}
	return pod
})

// ReplicaSetPod is a pod as the ReplicaSet controller sends it for a small web server:
// as a review, with what the API server adds before it asks, it takes some 3.7 KB.
func ReplicaSetPod() *corev1.Pod { return readPod().DeepCopy() }

// Container is the container of that name, init or app, nil if the pod has none.
func Container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
