package e2e

import (
	"errors"
	"testing"
)

// Through the API server, as an admin asks: check finds a sound installation, and status its
// replica.
func TestOnANodeCheckAndStatusAskTheReplicas(t *testing.T) {
	backToOne(t)
	scale(t, 1)
	eventually(t, running, func() error {
		out, _, err := run(t, "", "pillion", "check")
		return errors.Join(err, lacks(out, "The installation is sound: ",
			"warning deployment: Deployment pillion has one replica", " 1 warning, 0 failed, 0 skipped."))
	})
	eventually(t, soon, func() error {
		out, _, err := run(t, "", "pillion", "status")
		return errors.Join(err, lacks(out, "1 of 1 replicas"))
	})
}
