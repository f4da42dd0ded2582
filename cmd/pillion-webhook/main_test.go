package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAWrongCommandLineOrSettingSaysWhatIsAllowed(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(wrong, []byte("server: {namespace: x, logLevel: loud}\nreviews: {timeout: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	right := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(right, []byte("server: {namespace: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                  "pillion-webhook: --config is required: the file that the chart renders",
		"serve":             `pillion-webhook takes no arguments, got ["serve"]; its flags are --config and --kubeconfig`,
		"--listen=:1":       "unknown flag: --listen",
		"--config=/none":    "reading the settings: open /none",
		"--config=" + wrong: `server.logLevel is "loud"; must be one of debug, info, warn, error` + "\n" + `reviews.timeout is "1m0s"; must be from 1s to 30s`,
		"--config=" + right: "not running in a pod of a cluster: --kubeconfig is required",
		"--config=" + right + " --kubeconfig=/none": "!finding the API server: ",
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(line), &out, &errs)
		want, other := strings.CutPrefix(want, "!")
		if (code == exitError) != other || code == exitDone || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit code %d, %q\n%s\nwant %q", line, code, out.String(), &errs, want)
		}
	}
}
