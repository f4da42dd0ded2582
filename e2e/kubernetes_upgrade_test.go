package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// kubernetesUpgrade begins the name of the test of `make kubernetes-upgrade`, and upgradeTo is the
// environment variable with the version that it upgrades to.
const (
	kubernetesUpgrade = "TestKubernetesIsUpgraded"
	upgradeTo         = "UPGRADE_TO"
)

// versioned is a required template with a field that 1.36 drops.
const versioned = `
inject:
  spec:
    initContainers:
    - name: NAME
      restartPolicy: Always
      image: "registry.example.com/NAME:${kubernetes.minor}"
      volumeMounts: [{name: trust, mountPath: /trust}]
    volumes:
    - name: trust
      projected:
        sources:
        - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
        - {$if: "kubernetes.minor >= 37", clusterTrustBundle: {name: "example.com:roots:a", path: roots.pem}}
`

// minorOf is the version for which the pod was made, and what became of it.
func minorOf(pod *corev1.Pod, name string) (minor, outcome string) {
	c := sidecar(pod, name)
	if c == nil {
		return "", bare
	}
	_, minor, _ = strings.Cut(c.Image, ":")
	for _, v := range pod.Spec.Volumes {
		if v.Name != "trust" || v.Projected == nil {
			continue
		}
		has := slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil })
		if minor == "37" && has || minor == "36" && !has {
			return minor, injected
		}
	}
	return minor, "of version " + minor + " with another's volume"
}

// API servers go to the next version one after the other, and back, while pods are created through
// those that run.
func TestKubernetesIsUpgradedAndPodsAreOfTheLowestVersion(t *testing.T) {
	all, from, to := apiServers(t), os.Getenv("K8S"), os.Getenv(upgradeTo)
	m, n := newRequiredBy(t, versioned, nil)
	running, ctx := n.mustCreate(t, newPod("running", nil)), t.Context()
	gates := make([]sync.RWMutex, len(all)) // each is closed while its API server is away
	var loads []*podLoad
	for i, server := range all {
		loads = append(loads, newLoad(t, 2, 20*time.Millisecond, func(ctx context.Context, name string) (outcome string, err error) {
			gates[i].RLock()
			defer gates[i].RUnlock()
			pod, err := server.create(ctx, n.name, newPod(name, nil), dryRun)
			if err != nil {
				return refused, err
			}
			_, outcome = minorOf(pod, m.name)
			return outcome, nil
		}))
	}
	change := func(i int, version string) {
		t.Helper()
		gates[i].Lock()
		defer gates[i].Unlock()
		all[i].Stop(ctx, 20*time.Second)
		expectNoError(t, all[i].Use(ctx, version))
		expectNoError(t, all[i].Start(ctx))
	}
	// follows waits until every pod is made for the version, and returns how long that took.
	follows := func(version string) time.Duration {
		t.Helper()
		_, minor, _ := strings.Cut(version, ".")
		return eventually(t, 4*time.Minute, func() error {
			for range 10 {
				for _, server := range all {
					pod, err := server.create(ctx, n.name, newPod("web", nil), dryRun)
					if err != nil {
						return err
					}
					if is, _ := minorOf(pod, m.name); is != minor {
						return fmt.Errorf("a pod is made for version %s", is)
					}
				}
			}
			return nil
		})
	}
	updated := func(version string) {
		t.Helper()
		for _, server := range all {
			patch := fmt.Sprintf(`{"metadata":{"labels":{"updated":"%[1]s-%[2]d"}},"spec":{"containers":[{"name":"app","image":"nginx:%[1]s-%[2]d"}]}}`, version, server.number)
			if _, err := server.client.CoreV1().Pods(n.name).Patch(ctx, running.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Errorf("an update of a pod of %s, on %s, through API server %d: %v", from, version, server.number, err)
			}
		}
	}
	took := map[string]time.Duration{}
	var tried, failed, wrong, failedBack int
	note := func(back bool) {
		t.Helper()
		for i, l := range loads {
			t.Logf("pods through API server %d: %s", i+1, l)
			for outcome, times := range l.take() {
				tried += times
				switch {
				case outcome == refused && back:
					failedBack += times
				case outcome == refused:
					failed += times
				case outcome != injected:
					wrong += times
				}
			}
		}
	}
	for i := range all {
		change(i, to)
		updated(to)
		time.Sleep(3 * time.Second)
	}
	took[to] = follows(to)
	updated(to)
	note(false)
	change(0, from)
	took[from] = follows(from)
	note(true)
	for i := range all[1:] {
		change(i+1, from)
	}
	follows(from)
	updated(from)
	note(false)
	t.Logf("UPGRADE tried=%d failed=%d wrong=%d failed_back=%d follows_s=%.0f follows_back_s=%.0f", tried, failed, wrong, failedBack, took[to].Seconds(), took[from].Seconds())
	if tried < 100 || failed+wrong > 0 || took[from] > 20*time.Second {
		t.Errorf("pods tried %d, refused %d, wrong %d; pods follow the way back after %s", tried, failed, wrong, took[from])
	}
	if len(shared.Replicas(ground.Namespace)) != len(all) {
		t.Error("a replica has ended")
	}
}
