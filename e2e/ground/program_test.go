package ground

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAContainerBecomesTheProgramThatAKubeletWouldRun(t *testing.T) {
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "files"}, Data: map[string]string{"a.yaml": "A", "b.yaml": "B"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "keys"}, Data: map[string][]byte{"tls.crt": []byte("C")}},
	)
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	pod := &corev1.PodSpec{
		ServiceAccountName: "account",
		Containers: []corev1.Container{{
			Command: []string{"/pillion"},
			Args:    []string{"serve", "--templates=/etc/t", "--crt=/etc/t/keys/tls.crt", "--cost=$5"},
			Env: []corev1.EnvVar{
				{Name: "NAME", ValueFrom: field("metadata.name")},
				{Name: "WHERE", Value: "ns:/etc/t"},
				{Name: "HOME", ValueFrom: field("metadata.namespace")},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "files", MountPath: "/etc/t"},
				{Name: "keys", MountPath: "/etc/t/keys"},
				{Name: "empty", MountPath: "/tmp"},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "files"}}}},
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}},
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
	s := surroundings{client: client, namespace: "ns", podName: "p-0", dir: "/d"}
	p, err := s.program(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join("/d", "volumes", "files")
	keys := filepath.Join("/d", "volumes", "keys")
	if want := []string{"serve", "--templates=" + files, "--crt=" + keys + "/tls.crt", "--cost=$5"}; !slices.Equal(p.Args, want) {
		t.Errorf("arguments %q, want %q", p.Args, want)
	}
	if want := []string{"HOME=ns", "NAME=p-0", "WHERE=ns:" + files}; !slices.Equal(p.Env, want) {
		t.Errorf("environment %q, want %q", p.Env, want)
	}
	if got, want := slices.Sorted(maps.Keys(p.Files)), []string{files + "/a.yaml", files + "/b.yaml", keys + "/tls.crt"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

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
