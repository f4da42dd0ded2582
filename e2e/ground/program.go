package ground

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A program is what a kubelet makes of a container: its arguments, its environment, and
// the files that are mounted into it. It is plain data.
type program struct {
	Args, Env []string
	Dir       string            // a folder of its own
	Files     map[string][]byte // by path
	Folders   []string          // empty ones, to be made
}

// surroundings are what a container can ask its kubelet about itself.
type surroundings struct {
	client                    kubernetes.Interface
	namespace, podName, podIP string
	dir                       string // where its volumes stand
}

// program makes a program of the pod's only container. What it cannot do as a kubelet
// would (other kinds of volumes, of references) is an error.
func (s surroundings) program(ctx context.Context, pod *corev1.PodSpec) (program, error) {
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		return program{}, fmt.Errorf("%d containers and %d init containers; the ground runs exactly one container", len(pod.Containers), len(pod.InitContainers))
	}
	container := &pod.Containers[0]
	p := program{Dir: s.dir, Files: map[string][]byte{}}
	paths, err := s.mount(ctx, pod, container, &p)
	if err != nil {
		return program{}, err
	}
	env, err := s.environment(ctx, pod, container)
	if err != nil {
		return program{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		p.Env = append(p.Env, name+"="+paths.Replace(env[name]))
	}
	for _, arg := range s.arguments(container) {
		p.Args = append(p.Args, paths.Replace(expand(arg, env)))
	}
	return p, nil
}

// arguments leaves out the name of the binary, which an image's entry point gives.
func (s surroundings) arguments(container *corev1.Container) []string {
	if len(container.Command) == 0 {
		return container.Args
	}
	return append(slices.Clone(container.Command[1:]), container.Args...)
}

// mount reads the volumes that the container mounts, and returns what turns the paths
// inside the container into those on this machine.
func (s surroundings) mount(ctx context.Context, pod *corev1.PodSpec, container *corev1.Container, p *program) (*strings.Replacer, error) {
	mounts := slices.Clone(container.VolumeMounts)
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	var pairs []string
	for _, m := range mounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || m.SubPath != "" || m.SubPathExpr != "" {
			return nil, fmt.Errorf("mount %s of volume %s: no such volume, or a part of one", m.MountPath, m.Name)
		}
		folder := filepath.Join(s.dir, "volumes", m.Name)
		files, err := s.volume(ctx, &pod.Volumes[i])
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		p.Folders = append(p.Folders, folder)
		for name, data := range files {
			p.Files[filepath.Join(folder, filepath.FromSlash(name))] = data
		}
		pairs = append(pairs, path.Clean(m.MountPath), folder)
	}
	return strings.NewReplacer(pairs...), nil
}

// volume is the content of a volume, by path inside it.
func (s surroundings) volume(ctx context.Context, v *corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.ConfigMap != nil:
		object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if absent(err, v.ConfigMap.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		data := maps.Clone(object.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, text := range object.Data {
			data[key] = []byte(text)
		}
		return project(data, v.ConfigMap.Items)
	case v.Secret != nil:
		object, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if absent(err, v.Secret.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return project(object.Data, v.Secret.Items)
	}
	return nil, fmt.Errorf("the ground mounts emptyDir, configMap and secret volumes only")
}

func absent(err error, optional *bool) bool {
	return optional != nil && *optional && apierrors.IsNotFound(err)
}

// project chooses and renames keys, as a volume's items say; all keys without items.
func project(data map[string][]byte, items []corev1.KeyToPath) (map[string][]byte, error) {
	if len(items) == 0 {
		return data, nil
	}
	chosen := map[string][]byte{}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return nil, fmt.Errorf("no key %q", item.Key)
		}
		chosen[item.Path] = value
	}
	return chosen, nil
}

// environment resolves the container's variables in order: a later one may use $(EARLIER).
func (s surroundings) environment(ctx context.Context, pod *corev1.PodSpec, container *corev1.Container) (map[string]string, error) {
	if len(container.EnvFrom) > 0 {
		return nil, fmt.Errorf("envFrom: the ground resolves env only")
	}
	env := map[string]string{}
	for _, v := range container.Env {
		value := expand(v.Value, env)
		if v.ValueFrom != nil {
			var err error
			if value, err = s.reference(ctx, pod, container, v.ValueFrom); err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
			}
		}
		env[v.Name] = value
	}
	return env, nil
}

func (s surroundings) reference(ctx context.Context, pod *corev1.PodSpec, container *corev1.Container, from *corev1.EnvVarSource) (string, error) {
	switch {
	case from.FieldRef != nil:
		return s.field(pod, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return limit(container, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		value, ok := object.Data[from.ConfigMapKeyRef.Key]
		if !ok {
			return "", fmt.Errorf("ConfigMap %s has no key %q", object.Name, from.ConfigMapKeyRef.Key)
		}
		return value, nil
	}
	return "", fmt.Errorf("the ground resolves fieldRef, resourceFieldRef and configMapKeyRef only")
}

func (s surroundings) field(pod *corev1.PodSpec, name string) (string, error) {
	switch name {
	case "metadata.name":
		return s.podName, nil
	case "metadata.namespace":
		return s.namespace, nil
	case "spec.serviceAccountName":
		return pod.ServiceAccountName, nil
	case "spec.nodeName":
		return "controlplane", nil
	case "status.podIP", "status.podIPs":
		return s.podIP, nil
	}
	return "", fmt.Errorf("the ground does not know the field %s", name)
}

// limit is what a resourceFieldRef gives: the resource in units of the divisor, rounded up.
func limit(container *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := container.Resources.Limits
	if kind == "requests" {
		list = container.Resources.Requests
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok {
		return "", fmt.Errorf("the container has no %s", ref.Resource)
	}
	divisor := ref.Divisor.MilliValue()
	if divisor == 0 {
		divisor = 1000
	}
	return strconv.FormatInt((quantity.MilliValue()+divisor-1)/divisor, 10), nil
}

// expand replaces $(NAME) by the variable of that name, as a kubelet does: an unknown one
// stays, and $$ is a literal $.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = after
		if strings.HasPrefix(after, "$") {
			out.WriteByte('$')
			text = after[1:]
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := env[name]
		if !strings.HasPrefix(after, "(") || !closed || !known {
			out.WriteByte('$')
			continue
		}
		out.WriteString(value)
		text = rest
	}
}

// writeFiles makes the program's folder, with the files in it, from scratch.
func (p program) writeFiles() error {
	if err := os.RemoveAll(p.Dir); err != nil {
		return err
	}
	for _, dir := range append(slices.Clone(p.Folders), p.Dir) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, data := range p.Files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
