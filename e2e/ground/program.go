package ground

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// A program is what a kubelet runs of a pod with one container. It is plain data.
type program struct {
	Args    []string
	Env     []corev1.EnvVar
	Mounts  []corev1.VolumeMount         // the longest path first
	Volumes map[string]map[string][]byte // what they hold, by the name, and by the key
}

// newProgram reads the program of a Deployment. What it cannot do as a kubelet
// would (parts of volumes, variables from elsewhere) is an error.
func newProgram(ctx context.Context, client kubernetes.Interface, object *appsv1.Deployment) (program, error) {
	pod := &object.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || len(pod.Containers[0].Command)+len(pod.Containers[0].EnvFrom) != 0 {
		return program{}, fmt.Errorf("running Deployment %s/%s: the ground runs exactly one container, by its image's entry point and without envFrom", object.Namespace, object.Name)
	}
	container := &pod.Containers[0]
	p := program{Args: container.Args, Env: container.Env, Mounts: container.VolumeMounts, Volumes: map[string]map[string][]byte{}}
	slices.SortFunc(p.Mounts, func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	for _, m := range p.Mounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || m.SubPath != "" || m.SubPathExpr != "" {
			return program{}, fmt.Errorf("mount %s of volume %s: no such volume, or a part of one", m.MountPath, m.Name)
		}
		files, err := readVolume(ctx, client, object.Namespace, &pod.Volumes[i])
		if err != nil {
			return program{}, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		p.Volumes[m.Name] = files
	}
	return p, nil
}

// readVolume is the content of a volume, by key.
func readVolume(ctx context.Context, client kubernetes.Interface, namespace string, v *corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.ConfigMap != nil && len(v.ConfigMap.Items) == 0 && v.ConfigMap.Optional == nil:
		object, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := map[string][]byte{}
		maps.Copy(data, object.BinaryData)
		for key, text := range object.Data {
			data[key] = []byte(text)
		}
		return data, nil
	case v.Secret != nil && len(v.Secret.Items) == 0 && v.Secret.Optional == nil:
		object, err := client.CoreV1().Secrets(namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return object.Data, nil
	}
	return nil, fmt.Errorf("the ground mounts emptyDir, and configMap and secret volumes as a whole, only")
}

// identity tells programs that differ in anything apart.
func (p program) identity() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("a program is plain data: %v", err))
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// settingsFile is the name of the file that the server of the chart runs by.
const settingsFile = "settings.yaml"

// write makes the folder dir from scratch, with the volumes in it. The program listens at the addresses, other
// ones than its container would. It returns the program's arguments and environment with the paths of this machine.
func (p program) write(dir, serve, admin string) (args, env []string, err error) {
	var pairs []string
	for _, m := range p.Mounts {
		pairs = append(pairs, path.Clean(m.MountPath), filepath.Join(dir, "volumes", m.Name))
	}
	paths := strings.NewReplacer(pairs...)
	for _, arg := range p.Args {
		args = append(args, paths.Replace(arg))
	}
	for _, v := range p.Env {
		if v.ValueFrom != nil {
			return nil, nil, fmt.Errorf("environment variable %s: the ground knows plain values only", v.Name)
		}
		env = append(env, v.Name+"="+v.Value)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, nil, err
	}
	for volume, files := range p.Volumes {
		folder := filepath.Join(dir, "volumes", volume)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, nil, err
		}
		for name, data := range files {
			if name == settingsFile {
				if data, err = setAddresses(paths.Replace(string(data)), serve, admin); err != nil {
					return nil, nil, err
				}
			}
			if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
				return nil, nil, err
			}
		}
	}
	return args, env, nil
}

// setAddresses returns the settings with other addresses to listen at.
func setAddresses(text, serve, admin string) ([]byte, error) {
	var settings map[string]any
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	server, ok := settings["server"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the settings have no server: %s", text)
	}
	server["listen"], server["adminListen"] = serve, admin
	return yaml.Marshal(settings)
}
