// Command defaults prints what Kubernetes' own code makes of pods: which defaults it gives
// them, and which values it leaves out when it writes them.
//
//	go run .                     Kubernetes 1.37
//	go run -modfile=v1.35.mod .  Kubernetes 1.35
//
// Its pods have every object and every list that this version's types know, each with nothing in it
// but what it needs; others show the defaults that depend on something.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// report is what the program prints, as JSON.
type report struct {
	// Pods are pods as somebody could send them and as the API server writes them.
	Pods []pair `json:"pods"`
	// Dropped are the paths of fields whose zero value the API server leaves out, so
	// that nobody can tell whether somebody wrote it.
	Dropped []string `json:"dropped"`
}

type pair struct {
	Given     json.RawMessage `json:"given"`
	Defaulted json.RawMessage `json:"defaulted"`
}

func main() {
	var r report
	for _, pod := range append([]*corev1.Pod{skeleton()}, special()...) {
		r.Pods = append(r.Pods, defaulted(pod))
	}
	r.Dropped = slices.Compact(slices.Sorted(slices.Values(dropped(reflect.TypeFor[corev1.PodSpec](), "spec", nil))))
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	must(e.Encode(r))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "defaults:", err)
		os.Exit(1)
	}
}

// defaulted sends a pod the API server's way: defaults, the internal version and back.
func defaulted(pod *corev1.Pod) pair {
	given, err := json.Marshal(pod)
	must(err)
	scheme, out, internal, back := legacyscheme.Scheme, pod.DeepCopy(), &core.Pod{}, &corev1.Pod{}
	scheme.Default(out)
	must(scheme.Convert(out, internal, nil))
	must(scheme.Convert(internal, back, nil))
	written, err := json.Marshal(back)
	must(err)
	return pair{Given: given, Defaulted: written}
}

// skeleton is a pod with every pointer to an object set and one item in every list.
func skeleton() *corev1.Pod {
	pod := &corev1.Pod{}
	fill(reflect.ValueOf(&pod.Spec).Elem(), 0)
	pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = "c", "c:1"
	pod.Spec.InitContainers[0].Name, pod.Spec.InitContainers[0].Image = "i", "i:1"
	pod.Spec.EphemeralContainers = nil
	pod.Spec.Volumes = []corev1.Volume{pod.Spec.Volumes[0], {Name: "none"}}
	pod.Spec.Volumes[0].Name = "all"
	return pod
}

func fill(v reflect.Value, depth int) {
	switch v.Type() {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[metav1.ObjectMeta]():
		return
	}
	switch {
	case depth > 14:
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if t := v.Type().Elem(); t != reflect.TypeFor[metav1.Time]() && t != reflect.TypeFor[resource.Quantity]() {
			v.Set(reflect.New(t))
			fill(v.Elem(), depth+1)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	}
}

// special are pods on which defaults depend that one pod cannot show.
func special() []*corev1.Pod {
	quantities := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	var images corev1.PodSpec
	for i, image := range []string{"a", "a:latest", "a:1", "r.example.com:5000/a", "r.example.com:5000/a:2", "a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "a:latest@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"} {
		images.Containers = append(images.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: image})
		images.Volumes = append(images.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image}}})
	}
	always := corev1.ContainerRestartPolicyAlways
	specs := []corev1.PodSpec{
		images,
		{Containers: []corev1.Container{{Name: "c", Image: "c:1", Resources: corev1.ResourceRequirements{Limits: quantities("cpu", "1", "memory", "64Mi", "example.com/gpu", "1"), Requests: quantities("cpu", "500m")}}}},
		{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "c:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}
	for _, pod := range []corev1.ResourceRequirements{
		{Limits: quantities("cpu", "4")}, {Limits: quantities("memory", "4Gi")}, {Requests: quantities("cpu", "3")}, {Limits: quantities("cpu", "4", "memory", "4Gi"), Requests: quantities("cpu", "3")},
	} {
		for _, init := range []string{"100m", "2"} {
			specs = append(specs, corev1.PodSpec{
				Resources: &pod,
				InitContainers: []corev1.Container{
					{Name: "s", Image: "s:1", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "100m")}},
					{Name: "i", Image: "i:1", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", init)}},
				},
				Containers: []corev1.Container{{Name: "c", Image: "c:1", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "500m")}}},
			})
		}
	}
	var pods []*corev1.Pod
	for _, spec := range specs {
		pods = append(pods, &corev1.Pod{Spec: spec})
	}
	return pods
}

// dropped returns the fields below a type that JSON leaves out when they are zero, and
// for which that loses something.
func dropped(t reflect.Type, path string, inside []reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice {
		t, path = t.Elem(), path+"[]"
	}
	if t.Kind() != reflect.Struct || slices.Contains(inside, t) || t.PkgPath() == "k8s.io/apimachinery/pkg/api/resource" || t.PkgPath() == "k8s.io/apimachinery/pkg/util/intstr" || t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
		return nil
	}
	var paths []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		here := path + "." + name
		if name == "" {
			here = path
		}
		switch f.Type.Kind() {
		case reflect.Bool, reflect.Int32, reflect.Int64:
			if strings.Contains(options, "omitempty") {
				paths = append(paths, here)
			}
		default:
			if name != "ephemeralContainers" {
				paths = append(paths, dropped(f.Type, here, append(inside, t))...)
			}
		}
	}
	return paths
}
