package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/settings"
)

// The registration of another version, or of other settings, calls them.
func TestEveryPathOfTheVersionBeforeIsServed(t *testing.T) {
	list, err := os.ReadFile("../../webhook/testdata/paths-before.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{settings.Requested, settings.All} {
		replica, _ := testReplica(t, func(s *settings.Settings) { s.Reviews.Scope = scope })
		handlers := replica.handlers()
		for path := range strings.Lines(string(list)) {
			if path = strings.TrimSpace(path); strings.HasPrefix(path, "/") && handlers[path] == nil {
				t.Errorf("scope %s: nothing answers at %s", scope, path)
			}
		}
	}
}
