package certs

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestPermissionsReadLikeARole(t *testing.T) {
	for _, c := range []struct {
		p    permission
		want string
	}{
		{permission{"create", "", "secrets", "ns", ""}, `create secrets in namespace "ns" (granted by the chart's Role)`},
		{permission{"get", "", "secrets", "ns", "ca"}, `get secrets "ca" in namespace "ns" (granted by the chart's Role)`},
		{permission{"patch", "g.io", "things", "", "x"}, `patch things.g.io "x" (granted by the chart's ClusterRole)`},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestLibrariesLogAsDebugUnlessSomethingIsWrong(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})}).With("a", 1).WithGroup("g")
	log.Info("chatter")
	if out.Len() != 0 {
		t.Errorf("logged at info: %s", &out)
	}
	log.Error("trouble")
	if !bytes.Contains(out.Bytes(), []byte("level=ERROR msg=trouble a=1")) {
		t.Errorf("an error is logged as %q", &out)
	}
}
