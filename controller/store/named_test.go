package store_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion-dev/pillion/controller/store"
)

func TestATemplateThatNamespacesNameStaysInForceWhenItsFileIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{"named", "other"} {
			if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(manifest(name, "1")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var asked atomic.Bool
		asked.Store(true)
		l := store.New(store.Options{
			Sources: []store.Source{store.Directory(dir)}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Named: func(name string) bool { return name == "named" && asked.Load() },
		})
		go func() { _ = l.Run(t.Context()) }()
		wait(inForce)
		for _, name := range []string{"named", "other"} {
			if err := os.Remove(filepath.Join(dir, name+".yaml")); err != nil {
				t.Fatal(err)
			}
		}
		wait(time.Minute)
		if got := names(l.Snapshot()); !slices.Equal(got, []string{"named"}) || value(t, l.Snapshot(), "named") != "1" {
			t.Errorf("there are %v", got)
		}
		if text := errText(l.Snapshot(), "named"); !strings.Contains(text, "template named is gone from "+dir) || !strings.Contains(text, "namespaces name it") {
			t.Errorf("the entry says %q", text)
		}
		before := l.Snapshot()
		l.UsageChanged()
		if l.Snapshot() != before {
			t.Error("there is a new set, though the template is still named")
		}
		asked.Store(false)
		l.UsageChanged()
		if got := names(l.Snapshot()); len(got) != 0 {
			t.Errorf("when no namespace names it there are %v", got)
		}
	})
}
