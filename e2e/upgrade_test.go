package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

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

// streamed creates a pod by dry run in a stream, and says whether it is injected, or what is wrong.
func streamed(ctx context.Context, client kubernetes.Interface, stream, name string) string {
	pod, err := client.CoreV1().Pods(stream).Create(ctx, newPod(name, streams[stream].pod), dryRun)
	if err != nil {
		return "refused: " + err.Error()
	}
	c := sidecar(pod, streams[stream].sidecar)
	switch {
	case c == nil:
		return "bare: " + containerNames(pod)
	case c.Name != "changing":
		return injected
	}
	if level := environment(c, "LEVEL"); !strings.HasSuffix(c.Image, ":"+environment(c, "VERSION")) || level != environment(c, "SAME") || level == "" {
		return fmt.Sprintf("of two versions: image %s, variables %v", c.Image, c.Env)
	}
	return injected
}

// during does something while pods are created in all streams, none of which may be refused, bare,
// or of two versions, but for a few that are refused while a required template changes. Some streams may be left out.
func (g *certsGround) during(t *testing.T, clients []kubernetes.Interface, do func(), without ...string) {
	t.Helper()
	loads := map[string][]*podLoad{}
	for stream := range streams {
		for _, client := range clients {
			if !slices.Contains(without, stream) {
				loads[stream] = append(loads[stream], newLoad(t, 1, 150*time.Millisecond, func(ctx context.Context, name string) (string, error) {
					return streamed(ctx, client, stream, name), nil
				}))
			}
		}
	}
	do()
	tried, behind := 0, 0
	for stream, each := range loads {
		for i, l := range each {
			l.end()
			for what, times := range l.counts() {
				tried += times
				// A replica that has another version of a required template refuses the pod, on a further call or at
				// verification. The pod's controller tries again.
				if strings.HasPrefix(stream, "stream-required") && strings.Contains(what, "template changing: ") ||
					stream == "stream-of-chart" && strings.Contains(what, "template of-chart: ") {
					behind += times
					continue
				}
				// The last replica of the old version injects a pod, and ends before it is asked to verify
				// it. One pod is under way at each API server.
				if what != injected && (stream != "stream-of-chart" || times > 1 || !strings.Contains(what, "context deadline exceeded")) {
					t.Errorf("through API server %d, %d times in %s: %s", i+1, times, stream, what)
				}
			}
		}
	}
	if tried < 50 || behind > tried/10 {
		t.Errorf("%d pods show nothing, or too many are refused by replicas that are behind: %d", tried, behind)
	}
}

// applyChanging applies a version of the required template.
func (g *certsGround) applyChanging(t *testing.T, version int) error {
	text := strings.ReplaceAll(changingTemplate, "NUMBER", strconv.Itoa(version))
	return g.client.CoreV1().RESTClient().Patch(types.ApplyYAMLPatchType).AbsPath("/apis/pillion.dev/v1alpha1/sidecartemplates/changing").
		Param("fieldManager", "e2e").Param("force", "true").Body([]byte(text)).Do(t.Context()).Error()
}

// changes has versions of the required template, and its parameter in two namespaces, follow each other until the
// returned function is called.
func (g *certsGround) changes(t *testing.T) (stop func()) {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		for n := 1; ctx.Err() == nil; n++ {
			err := g.applyChanging(t, n)
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
	return func() { cancel(); <-ended }
}

// begin makes the namespaces of all streams, and waits until their pods are injected through each API server.
func (g *certsGround) begin(t *testing.T, clients []kubernetes.Interface) {
	t.Helper()
	for name, s := range streams {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels, Annotations: s.annotations}}
		create(t, g.client.CoreV1().Namespaces(), object)
	}
	for name, s := range streams {
		for _, client := range clients {
			eventually(t, soon, func() error {
				if what := streamed(t.Context(), client, name, "probe"); what != injected {
					return fmt.Errorf("%s: %s", name, what)
				}
				if got, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil || s.labels["team"] != "" && got.Labels[requiredLabel] != "true" {
					return fmt.Errorf("%s has the labels %v (%v)", name, got.Labels, err)
				}
				return nil
			})
		}
	}
}

// Two API servers, one of which is late, three replicas, and pods all the time.
func TestNoPodIsLostWhileVersionsChange(t *testing.T) {
	t.Parallel()
	before, ok := checkout.PillionBefore()
	if !ok {
		t.Skip("the version before is not built here; make verify builds it")
	}
	g := newCertsGround(t)
	clients, err := measure.Clients(g.Kubeconfigs())
	expectNoError(t, err)
	helm := func(args ...string) { t.Helper(); g.run(t, "helm", args...) }
	// Helm changes the registration at once. The replicas of before go on, until the new ones are ready.
	replace := func(program string) {
		t.Helper()
		time.Sleep(2 * time.Second)
		g.UsePillion(program)
		expectNoError(t, g.Replace(t.Context(), ground.Namespace))
		time.Sleep(2 * time.Second)
	}
	g.UsePillion(before)
	helm(slices.Concat([]string{"install", ground.Release, checkout.ChartBefore(), "-n", ground.Namespace, "--create-namespace", "--set", "library={fluent-bit}", "--set", "shutdown.delaySeconds=3"}, ofChart(1))...)
	g.scale(t)
	expectNoError(t, g.applyChanging(t, 0))
	g.begin(t, clients)

	// Values are given once: an upgrade keeps those that are stored.
	upgrade := upgradeOf("--reset-then-reuse-values")
	t.Run("an upgrade", func(t *testing.T) {
		// Helm does not upgrade CRDs, and the chart wants its own.
		g.run(t, "kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", checkout.Path("charts", "pillion", "crds"))
		g.during(t, clients, func() {
			helm(upgrade...)
			replace(checkout.Webhook())
		})
	})
	// Replicas of both versions of the chart's own template run, and neither has the other's.
	t.Run("settings that change the paths, while required templates and parameters change", func(t *testing.T) {
		g.during(t, clients, func() {
			defer g.changes(t)()
			helm(slices.Concat(upgrade, []string{"--set", "webhook.scope=All"}, ofChart(2))...)
			replace(checkout.Webhook())
		})
	})
	t.Run("a rollback", func(t *testing.T) {
		// An entry that Helm adds has no caBundle until a replica writes it.
		g.during(t, clients, func() {
			helm("rollback", ground.Release, "1", "-n", ground.Namespace)
			eventually(t, soon, func() error { _, err := bundleOf(t.Context(), clients[0], configuration); return err })
			time.Sleep(2 * time.Second) // the API server that is late
		}, "stream-pods")
		// The version before refuses pods of a template version that it does not know.
		g.during(t, clients, func() { replace(before) }, "stream-of-chart")
	})
}
