package faults

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARefusalIsPillionsOnlyWhereAnEntryOfItsIsNamed(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err                           error
		unanswered, denied, elsewhere bool
	}{
		{apierrors.NewInternalError(errors.New(`failed calling webhook "enforced.pillion.dev": connection refused`)), true, false, false},
		{apierrors.NewForbidden(pods, "web", errors.New(`admission webhook "requested.pillion.dev" denied the request: no such template`)), false, true, false},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "other.example.com": connection refused`)), false, false, true},
		{apierrors.NewForbidden(pods, "web", errors.New("exceeded quota: pillion.dev")), false, false, true},
		{fmt.Errorf("sending: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), false, false, true},
	} {
		var a attempt
		a.fail(c.err)
		if (a.unanswered != "") != c.unanswered || (a.denial != "") != c.denied || (a.elsewhere != "") != c.elsewhere {
			t.Errorf("%v: %+v", c.err, a)
		}
	}
}

func TestAPodIsKnownByItsSidecarsAndTheirVersions(t *testing.T) {
	t.Parallel()
	pod := newPod(0)
	pod.Annotations = map[string]string{statusAnnotation: "{}"}
	for name, env := range map[string][]corev1.EnvVar{librarySidecar: nil, askedTemplate: {{Name: versionVariable, Value: "v7"}}, selectingTemplate: nil, "other": nil} {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Env: env})
	}
	var a attempt
	a.compare(pod)
	if want := map[string]string{librarySidecar: libraryVersion, askedTemplate: "v7", selectingTemplate: "none"}; !a.record || !maps.Equal(a.sidecars, want) {
		t.Errorf("%+v, want the sidecars %v", a, want)
	}
}
