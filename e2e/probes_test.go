package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A kubelet that finds a replica hanging ends it soon, and no kubelet ends one that starts
// slowly or misses CPU for some seconds. `make faults` shows both.
func TestAReplicaThatHangsIsEndedSoonAndOneThatIsSlowIsNot(t *testing.T) {
	t.Parallel()
	d := only[appsv1.Deployment](t, render(t), "Deployment")
	c := d.Spec.Template.Spec.Containers[0]
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	// longest is how long a process hangs at most until the probe has failed: it may have
	// answered just before it began to hang.
	longest := func(p *corev1.Probe) time.Duration {
		return seconds(p.PeriodSeconds + (p.FailureThreshold-1)*max(p.PeriodSeconds, p.TimeoutSeconds) + p.TimeoutSeconds)
	}
	live, ready, start := c.LivenessProbe, c.ReadinessProbe, c.StartupProbe
	if live.TerminationGracePeriodSeconds == nil {
		t.Fatal("a hung process gets the grace of one that stops in order")
	}
	if took := longest(live) + seconds(int32(*live.TerminationGracePeriodSeconds)); took > 13*time.Second {
		t.Errorf("a process that hangs is killed after up to %s, want 13 s at most", took)
	}
	if took := seconds((live.FailureThreshold-1)*live.PeriodSeconds + live.TimeoutSeconds); took < 9*time.Second {
		t.Errorf("a process that does not answer for %s is killed, want 9 s at least", took)
	}
	if took := longest(ready); took > 5*time.Second {
		t.Errorf("a process that hangs leaves the Service after up to %s, want 5 s at most", took)
	}
	if limit := seconds(start.PeriodSeconds * start.FailureThreshold); limit < time.Minute {
		t.Errorf("a process that starts within %s is not waited for", limit)
	}
	if live.HTTPGet.Path != "/healthz" || start.HTTPGet.Path != "/healthz" || ready.HTTPGet.Path != "/readyz" {
		t.Errorf("the probes ask %s, %s and %s", live.HTTPGet.Path, start.HTTPGet.Path, ready.HTTPGet.Path)
	}
	if d.Spec.MinReadySeconds < 2 {
		t.Errorf("a replica is available %d s after it is ready, want 2 at least: kube-proxy gathers changes for one", d.Spec.MinReadySeconds)
	}
}
