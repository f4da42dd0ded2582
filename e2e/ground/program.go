package ground

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// A program is what a kubelet makes of a container: its arguments, its environment, and
// the files that are mounted into it. It is plain data.
type program struct {
	Args, Env []string
	Dir       string            // a folder of its own
	Files     map[string][]byte // by path
	Folders   []string          // empty ones, to be made
}

// surroundings are where a container runs.
type surroundings struct {
	client    kubernetes.Interface
	namespace string
	dir       string // where its volumes stand
}

// program makes a program of the pod's only container. What it cannot do as a kubelet
// would (parts of volumes, variables from elsewhere) is an error.
func (s surroundings) program(ctx context.Context, pod *corev1.PodSpec) (program, error) {
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || len(pod.Containers[0].Command)+len(pod.Containers[0].EnvFrom) != 0 {
		return program{}, fmt.Errorf("%d containers and %d init containers; the ground runs exactly one container, by its image's entry point and without envFrom", len(pod.Containers), len(pod.InitContainers))
	}
	container := &pod.Containers[0]
	p := program{Dir: s.dir, Files: map[string][]byte{}}
	paths, err := s.mount(ctx, pod, container, &p)
	if err != nil {
		return program{}, err
	}
	for _, v := range container.Env {
		if v.ValueFrom != nil {
			return program{}, fmt.Errorf("environment variable %s: the ground knows plain values only", v.Name)
		}
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	for name, data := range p.Files {
		if path.Base(name) == settingsFile { // its paths are those inside the container
			p.Files[name] = []byte(paths.Replace(string(data)))
		}
	}
	for _, arg := range container.Args {
		p.Args = append(p.Args, paths.Replace(arg))
	}
	return p, nil
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

// volume is the content of a volume, by key.
func (s surroundings) volume(ctx context.Context, v *corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.ConfigMap != nil && len(v.ConfigMap.Items) == 0 && v.ConfigMap.Optional == nil:
		object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
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
		object, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return object.Data, nil
	}
	return nil, fmt.Errorf("the ground mounts emptyDir, and configMap and secret volumes as a whole, only")
}

// settingsFile is the name of the file that the server of the chart runs by.
const settingsFile = "settings.yaml"

// setAddresses changes the settings on disk, so that the program listens at other addresses than its container would.
func (p program) setAddresses(serve, admin string) error {
	for name, data := range p.Files {
		if path.Base(name) != settingsFile {
			continue
		}
		var settings map[string]any
		if err := yaml.Unmarshal(data, &settings); err != nil {
			return fmt.Errorf("reading the settings: %w", err)
		}
		server, ok := settings["server"].(map[string]any)
		if !ok {
			return fmt.Errorf("the settings %s have no server", name)
		}
		server["listen"], server["adminListen"] = serve, admin
		text, err := yaml.Marshal(settings)
		if err != nil {
			return fmt.Errorf("writing the settings: %w", err)
		}
		return os.WriteFile(name, text, 0o600)
	}
	return fmt.Errorf("the program in %s has no %s", p.Dir, settingsFile)
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
