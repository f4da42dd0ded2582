package inspect_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/inspect"
)

// Whoever may not read the version may read other things.
func TestOnlyAnAPIServerThatAnswersNothingEndsACommand(t *testing.T) {
	answers := func(err error) error {
		return (&inspect.Cluster{Version: func(context.Context) ([]byte, error) { return []byte("{}"), err }}).CheckConnection(t.Context())
	}
	if err := answers(apierrors.NewUnauthorized("Unauthorized")); err == nil || !strings.Contains(err.Error(), "does not accept your credentials") {
		t.Error(err)
	}
	for _, err := range []error{nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), apierrors.NewInternalError(os.ErrInvalid)} {
		if got := answers(err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
}
