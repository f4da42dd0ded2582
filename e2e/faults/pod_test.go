package faults

import (
	"errors"
	"fmt"
	"net"
	"testing"

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
		var p Pod
		p.fail(c.err)
		if (p.Unanswered != "") != c.unanswered || (p.Denied != "") != c.denied || (p.Elsewhere != "") != c.elsewhere {
			t.Errorf("%v: %+v", c.err, p)
		}
	}
}
