package ground

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestWhatTheGroundCannotRunAsAKubeletWouldIsRefused(t *testing.T) {
	tests := []struct {
		why    string
		change func(*corev1.PodSpec)
		want   string
	}{
		{"a second container", func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{}) }, "2 containers"},
		{"an init container", func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{}} }, "init container"},
		{"envFrom", func(p *corev1.PodSpec) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} }, "envFrom"},
		{"a host path", func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, "volume v"},
		{"a part of a volume", func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{{Key: "k", Path: "p"}}}}}}
		}, "as a whole"},
		{"a variable in an argument", func(p *corev1.PodSpec) { p.Containers[0].Args = []string{"--name=$(NAME)"} }, "--name=$(NAME)"},
		{"a variable in a variable", func(p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: "$$5"}} }, "variable X"},
		{"a reference to a resource", func(p *corev1.PodSpec) {
			p.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}}
		}, "limits.memory of the container itself, only"},
		{"a field it does not know", func(p *corev1.PodSpec) {
			p.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}
		}, "metadata.uid"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			pod := &corev1.PodSpec{Containers: []corev1.Container{{}}}
			test.change(pod)
			_, err := surroundings{client: fake.NewClientset()}.program(t.Context(), pod)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}
