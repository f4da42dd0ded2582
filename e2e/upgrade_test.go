package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// changing is the required template of these tests, in one of its versions. All that it adds
// says which one.
func changing(version int) string {
	return fmt.Sprintf(`{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"changing"},"spec":{
		"required":true,"match":{"namespaceSelector":{"matchLabels":{"team":"changing"}}},
		"parameters":[{"name":"level","type":"string","default":"none","setBy":["Namespace"]}],
		"inject":{"spec":{"initContainers":[{"name":"changing","restartPolicy":"Always","image":"registry.example.com/changing:%[1]d",
			"env":[{"name":"VERSION","value":"%[1]d"},{"name":"LEVEL","value":"${params.level}"},{"name":"SAME","value":"${params.level}"}]}]}}}}`, version)
}

// ofChart is the chart's value of a required template of its own, in one of its versions.
func ofChart(version int) []string {
	return []string{"--set-json", fmt.Sprintf(`templates.of-chart={"required":true,"match":{"namespaceSelector":{"matchLabels":{"team":"chart"}}},
		"inject":{"spec":{"initContainers":[{"name":"of-chart","restartPolicy":"Always","image":"registry.example.com/of-chart:%d"}]}}}`, version)}
}

// streams are the namespaces that pods are created in all the time, and what their pods get.
var streams = map[string]struct {
	labels      map[string]string
	annotations map[string]string // of the namespace
	pod         map[string]string // annotations
	sidecar     string
}{
	"stream-enabled":           {map[string]string{"pillion.dev/injection": "enabled"}, asking("fluent-bit"), nil, "fluent-bit"},
	"stream-enforced":          {enforced(), asking("fluent-bit"), nil, "fluent-bit"},
	"stream-pods":              {nil, nil, asking("fluent-bit"), "fluent-bit"},
	"stream-required":          {map[string]string{"pillion.dev/injection": "enabled", "team": "changing"}, nil, nil, "changing"},
	"stream-required-enforced": {map[string]string{"pillion.dev/injection": "enforced", "team": "changing"}, nil, nil, "changing"},
	"stream-of-chart":          {map[string]string{"pillion.dev/injection": "enforced", "team": "chart"}, nil, nil, "of-chart"},
}

// stream creates pods by dry run in each of the streams, one after the other at each API server,
// and keeps what went wrong.
type stream struct {
	mu    sync.Mutex
	tried int
	wrong map[string]int // by what it is
}

func (s *stream) run(ctx context.Context, clients []kubernetes.Interface, without []string) {
	var all sync.WaitGroup
	defer all.Wait()
	for name := range streams {
		for _, client := range clients {
			if slices.Contains(without, name) {
				continue
			}
			all.Go(func() {
				for ctx.Err() == nil {
					s.create(context.WithoutCancel(ctx), client, name)
					time.Sleep(150 * time.Millisecond)
				}
			})
		}
	}
}

func (s *stream) create(ctx context.Context, client kubernetes.Interface, name string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Annotations: streams[name].pod},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}},
	}
	wrong := judgeStreamed(client.CoreV1().Pods(name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(streams[name].sidecar)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	if wrong != "" {
		s.wrong[name+": "+wrong]++
	}
}

// judgeStreamed says what is wrong with a pod that should have the sidecar, or that it is refused.
func judgeStreamed(pod *corev1.Pod, err error) func(name string) string {
	return func(name string) string {
		if err != nil {
			return "refused: " + err.Error()
		}
		i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
		if i < 0 {
			return "bare: " + containerNames(pod)
		}
		if name != "changing" {
			return ""
		}
		env := map[string]string{}
		for _, e := range pod.Spec.InitContainers[i].Env {
			env[e.Name] = e.Value
		}
		if !strings.HasSuffix(pod.Spec.InitContainers[i].Image, ":"+env["VERSION"]) || env["LEVEL"] != env["SAME"] || env["LEVEL"] == "" {
			return fmt.Sprintf("of two versions: image %s, variables %v", pod.Spec.InitContainers[i].Image, env)
		}
		return ""
	}
}

// during does something while pods are created in all streams, none of which may be refused, bare,
// or of two versions. Some streams may be left out.
func (g *certsGround) during(t *testing.T, clients []kubernetes.Interface, do func(), without ...string) {
	t.Helper()
	s := &stream{wrong: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx, clients, without) })
	do()
	stop()
	running.Wait()
	count := 0
	for _, what := range slices.Sorted(maps.Keys(s.wrong)) {
		// The last replica of the old version injects a pod, and ends before it is asked to verify
		// it. One pod is under way at each API server.
		if strings.HasPrefix(what, "stream-of-chart: ") && strings.Contains(what, "context deadline exceeded") && s.wrong[what] <= len(clients) {
			t.Logf("%d times, %s", s.wrong[what], what)
			continue
		}
		count += s.wrong[what]
		t.Errorf("%d times, %s", s.wrong[what], what)
	}
	t.Logf("%d pods tried, %d refused, bare or of two versions", s.tried, count)
	if s.tried < 50 {
		t.Errorf("%d pods show nothing", s.tried)
	}
}

// Two API servers, one of which is late, three replicas, and pods all the time.
func TestNoPodIsLostWhileVersionsChange(t *testing.T) {
	t.Parallel()
	g := newCertsGround(t)
	before, ok := checkout.PillionBefore()
	if !ok {
		t.Log("the program of the version before is not built here (make verify builds it): this one runs with the chart of before")
		before = checkout.Pillion()
	}
	var clients []kubernetes.Interface
	for _, path := range g.Kubeconfigs() {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	// Values are given once: an upgrade keeps those that are stored.
	upgrade := []string{"upgrade", ground.Release, checkout.Chart(), "-n", ground.Namespace, "--reset-then-reuse-values"}
	helm := func(args ...string) { t.Helper(); g.run(t, "helm", args...) }
	// Helm changes the registration at once. The replicas of before go on, until the new ones are ready.
	replace := func(program string) {
		t.Helper()
		time.Sleep(2 * time.Second)
		g.UsePillion(program)
		if err := g.Replace(t.Context(), ground.Namespace); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	}

	g.UsePillion(before)
	helm(slices.Concat([]string{"install", ground.Release, checkout.ChartBefore(), "-n", ground.Namespace, "--create-namespace", "--set", "library={fluent-bit}", "--set", "shutdown.delaySeconds=3"}, ofChart(1))...)
	g.scale(t)
	sct := g.dynamic.Resource(schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"})
	apply := func(version int) error {
		_, err := sct.Patch(t.Context(), "changing", types.ApplyPatchType, []byte(changing(version)), metav1.PatchOptions{FieldManager: "e2e", Force: new(true)})
		return err
	}
	if err := apply(0); err != nil {
		t.Fatal(err)
	}
	for name, s := range streams {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels, Annotations: s.annotations}}
		if _, err := g.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range streams {
		for _, client := range clients {
			eventually(t, soon, func() error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", Annotations: s.pod}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}}}
				if wrong := judgeStreamed(client.CoreV1().Pods(name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(s.sidecar); wrong != "" {
					return fmt.Errorf("%s: %s", name, wrong)
				}
				if got, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil || s.labels["team"] != "" && got.Labels[requiredLabel] != "true" {
					return fmt.Errorf("%s has the labels %v (%v)", name, got.Labels, err)
				}
				return nil
			})
		}
	}

	t.Run("an upgrade", func(t *testing.T) {
		g.during(t, clients, func() {
			helm(upgrade...)
			replace(checkout.Pillion())
		})
	})
	// Replicas of both versions of the chart's own template run, and neither has the other's.
	t.Run("settings that change the paths, while required templates and parameters change", func(t *testing.T) {
		g.during(t, clients, func() {
			changed := make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				defer close(changed)
				for n := 1; ctx.Err() == nil; n++ {
					err := apply(n)
					level := fmt.Appendf(nil, `{"metadata":{"annotations":{"changing.pillion.dev/level":"level-%d"}}}`, n)
					for _, name := range []string{"stream-required", "stream-required-enforced"} {
						_, patched := g.client.CoreV1().Namespaces().Patch(t.Context(), name, types.MergePatchType, level, metav1.PatchOptions{})
						err = errors.Join(err, patched)
					}
					if err != nil {
						t.Error(err)
					}
					time.Sleep(500 * time.Millisecond)
				}
			}()
			defer func() { stop(); <-changed }()
			helm(slices.Concat(upgrade, []string{"--set", "webhook.scope=All"}, ofChart(2))...)
			replace(checkout.Pillion())
		})
	})
	t.Run("a rollback", func(t *testing.T) {
		// An entry that Helm adds has no caBundle until a replica writes it.
		g.during(t, clients, func() {
			helm("rollback", ground.Release, "1", "-n", ground.Namespace)
			eventually(t, soon, func() error {
				c, err := clients[0].AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
				if err == nil && slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }) {
					err = errors.New("an entry has no caBundle")
				}
				return err
			})
			time.Sleep(2 * time.Second) // the API server that is late
		}, "stream-pods")
		without := []string{}
		if ok { // which refuses pods of a version that it does not know
			without = append(without, "stream-of-chart")
		}
		g.during(t, clients, func() { replace(before) }, without...)
	})
}
