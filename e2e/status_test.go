package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Through the API server, as an admin asks: check finds a sound installation, and status its
// replica.
func TestOnANodeCheckAndStatusAskTheReplicas(t *testing.T) {
	backToOne(t)
	scale(t, 1)
	eventually(t, running, func() error {
		out, stderr, err := run(t, "", "pillion", "check")
		if err == nil && (!strings.Contains(out, "The installation is sound: ") || !strings.Contains(out, "warning deployment: Deployment pillion has one replica") || !strings.Contains(out, " 1 warning, 0 failed, 0 skipped.")) {
			err = errors.New("it is not as it should be")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s%s", err, out, stderr)
		}
		return nil
	})
	eventually(t, soon, func() error {
		out, stderr, err := run(t, "", "pillion", "status")
		if err == nil && !strings.Contains(out, "1 of 1 replicas") {
			err = fmt.Errorf("%s%s", out, stderr)
		}
		return err
	})
}
