package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/webhook/state"
)

// maxFuzzed bounds the inputs of a target: a longer one is no other case.
const maxFuzzed = 4 << 10

// FuzzReplicasAnswers holds for any answers of a replica, which another program may give:
// status says something of the replica, and prints no control characters but the ends of
// lines.
func FuzzReplicasAnswers(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"ok\n", `{"version": "1", "certificates": {"ends": "2027-01-01T00:00:00Z", "published": [{"kind": "MutatingWebhookConfiguration", "name": "pillion", "verifies": true}]}}`},
		{"not ready:\ncertificates: missing\n", `{"certificates": {"problems": ["publish: secret a/b"]}}`}, {`{"kind":"Status","message":"no endpoints"}`, `{"templates": null, "settings": [1]}`},
		{"not ready:\n\x1b[2J", `{"certificates": {"problems": ["\u001b[2J: \u202e"]}}`}, {"<html>", "a 1 2 3"}, {"0", "{}"}, {`{"message":"\u0007"}`, `[{}]`},
		{"ok", `{"certificates": {"ends": "9999-12-31T23:59:59Z"}}`}, {"ok", `{"certificates": {"published": [{"name": "a\tb\r", "kind": ""}]}}`},
		{"ok", `{"cacheAgeSeconds": {"namespaces": 1e300, "a\nb": -1}, "templates": {"a": "1\n2"}, "broken": ["a"], "enforcementProven": true, "unknownTemplates": {"\u001b": 1}, "failingLabels": {"\n": 2}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), true)
		f.Add([]byte(seed[0]), []byte(seed[1]), false)
	}
	f.Fuzz(func(t *testing.T, readiness, said []byte, ready bool) {
		if len(readiness) > maxFuzzed || len(said) > maxFuzzed {
			return
		}
		one := inspect.NewReplica("one", func(_ context.Context, path string) ([]byte, error) {
			if path == state.Path {
				return said, nil
			}
			if !ready {
				return readiness, errors.New("503 Service Unavailable")
			}
			return readiness, nil
		})
		all := inspect.GetStates(t.Context(), []inspect.Replica{one})
		if _, err := json.Marshal(all[0]); err != nil {
			t.Fatalf("as JSON: %v", err)
		}
		out, sound := statusText(all)
		if !ready && sound {
			t.Fatalf("all is well:\n%s", out)
		}
		if !strings.Contains(out, "one") {
			t.Fatalf("nothing is said of the replica:\n%s", out)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Fatalf("%q has control characters", out)
		}
	})
}
