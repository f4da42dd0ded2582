package e2e

import (
	"context"
	"fmt"
	"maps"
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

// upgraded are the pods of a namespace that are created through API servers while these are upgraded.
type upgraded struct {
	namespace, sidecar string

	mu                   sync.Mutex
	tried, failed, wrong int
	said                 map[string]int
}

// minorOf is the version for which the pod was made, or what is wrong with it.
func (s *upgraded) minorOf(pod *corev1.Pod) (minor, wrong string) {
	c := sidecar(pod, s.sidecar)
	if c == nil {
		return "", "bare"
	}
	_, minor, _ = strings.Cut(c.Image, ":")
	for _, v := range pod.Spec.Volumes {
		if v.Name != "trust" || v.Projected == nil {
			continue
		}
		has := slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil })
		if minor == "37" && has || minor == "36" && !has {
			return minor, ""
		}
	}
	return minor, "of version " + minor + " with another's volume"
}

// through creates pods through one API server until ctx ends. The gate is closed while it is away.
func (s *upgraded) through(ctx context.Context, server *apiServer, gate *sync.RWMutex) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(20 * time.Millisecond)
		gate.RLock()
		pod, err := server.create(context.WithoutCancel(ctx), s.namespace, newPod(fmt.Sprintf("web-%d-%d", server.number, i), nil), dryRun)
		gate.RUnlock()
		wrong := ""
		if err == nil {
			_, wrong = s.minorOf(pod)
		}
		s.mu.Lock()
		s.tried++
		if err != nil {
			s.failed++
			s.said[err.Error()]++
		} else if wrong != "" {
			s.wrong++
			s.said["a pod is "+wrong]++
		}
		s.mu.Unlock()
	}
}

// take returns the counts since the last call, and what was said of failures.
func (s *upgraded) take() (tried, failed, wrong int, said map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tried, failed, wrong, said = s.tried, s.failed, s.wrong, s.said
	s.tried, s.failed, s.wrong, s.said = 0, 0, 0, map[string]int{}
	return
}

// API servers go to the next version one after the other, and back, while pods are created through
// those that run.
func TestKubernetesIsUpgradedAndPodsAreOfTheLowestVersion(t *testing.T) {
	all, from, to := apiServers(t), os.Getenv("K8S"), os.Getenv(upgradeTo)
	m, n := newRequiredBy(t, versioned, nil)
	s := &upgraded{namespace: n.name, sidecar: m.name, said: map[string]int{}}
	running := n.mustCreate(t, newPod("running", nil))
	gates := make([]sync.RWMutex, len(all))
	ctx, stop := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	defer streams.Wait()
	defer stop()
	for i, server := range all {
		for range 2 {
			streams.Go(func() { s.through(ctx, server, &gates[i]) })
		}
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
					if is, _ := s.minorOf(pod); is != minor {
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
		a, b, c, said := s.take()
		for _, what := range slices.Sorted(maps.Keys(said)) {
			t.Logf("%d times: %s", said[what], what)
		}
		tried, wrong = tried+a, wrong+c
		if back {
			failedBack += b
		} else {
			failed += b
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
