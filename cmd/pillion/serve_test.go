package main

import (
	"os"
	"strings"
	"testing"
)

// The registration of another version, or of other settings, calls them.
func TestEveryPathOfTheVersionBeforeIsServed(t *testing.T) {
	list, err := os.ReadFile("../../webhook/testdata/paths-before.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{scopeRequested, scopeAll} {
		replica, _ := assembledReplica(t, "--webhook-scope="+scope)
		for path := range strings.Lines(string(list)) {
			if path = strings.TrimSpace(path); strings.HasPrefix(path, "/") && replica.handlers[path] == nil {
				t.Errorf("--webhook-scope=%s: nothing answers at %s", scope, path)
			}
		}
	}
}
