package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completing runs a completion as a shell does, and returns what is offered.
func completing(t *testing.T, args ...string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append([]string{kubectlCompletion}, args...), strings.NewReader(""), &out, &errs); code != exitDone {
		t.Fatalf("%v: exit code %d\n%s", args, code, &errs)
	}
	var offered []string
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name != "" && !strings.HasPrefix(name, ":") {
			offered = append(offered, name)
		}
	}
	return offered
}

// completionCluster is an API server with namespaces and SidecarTemplates. $KUBECONFIG
// leads to it.
func completionCluster(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := map[string][]string{
			"/api/v1/namespaces":                          {"shop", "stock"},
			"/apis/pillion.dev/v1alpha1/sidecartemplates": {"own"},
		}[r.URL.Path]
		if names == nil {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		items := []any{}
		for _, name := range names {
			items = append(items, map[string]any{"metadata": map[string]any{"name": name}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": map[string]any{}, "items": items})
	}))
	t.Cleanup(server.Close)
	setKubeconfig(t, server.URL)
}

// templateWith is a template with one parameter.
func templateWith(name, parameter string) string {
	return fmt.Sprintf(`{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": {"name": %q}, "spec": {"parameters": [{"name": %q, "type": "string", "default": "x"}], `+
		`"inject": {"metadata": {"annotations": {"x": "${params.%s}"}}}}}`, name, parameter, parameter)
}

func setKubeconfig(t *testing.T, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}]}`, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func TestShellsAreOfferedWhatThereIs(t *testing.T) {
	completionCluster(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(templateWith("of-a-file", "x")+"\n---\n{kind: Pod, metadata: {name: no-template}}\n---\n"+templateWith("with-one", "theSize")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line      []string
		want, not string // names, with commas
	}{
		{[]string{"ch"}, "check", "status"},
		{[]string{"params", ""}, "fluent-bit", "own"}, // params finds own with --cluster only
		{[]string{"policy", ""}, "fluent-bit", "own"},
		{[]string{"params", "--cluster", ""}, "own", "fluent-bit"},
		{[]string{"params", "--templates", dir, ""}, "of-a-file,fluent-bit", "no-template"},
		{[]string{"params", "--library", "vault-agent", "--templates", filepath.Join(dir, "a.yaml"), ""}, "of-a-file,vault-agent", "fluent-bit"},
		{[]string{"params", "fluent-bit", ""}, "", "log-level"},
		{[]string{"library", "show", "flu"}, "fluent-bit", "own"},
		{[]string{"status", ""}, "shop,stock,own", "fluent-bit"},
		{[]string{"status", "ns/"}, "ns/shop,ns/stock", "own"},
		{[]string{"rollout", "sct/"}, "sct/own", "sct/shop"},
		{[]string{"rollout", "-n", ""}, "shop,stock", ""},
		{[]string{"policy", "--excluded-namespaces", "shop,"}, `shop\,stock`, "shop"},
		{[]string{"status", "-n", ""}, "shop", ""},
		{[]string{"inject", "--library", "fluent-bit,vault"}, `fluent-bit\,vault-agent`, "fluent-bit"},
		{[]string{"inject", "-o", ""}, "yaml,json,patch,diff", ""},
		{[]string{"check", "--color", "a"}, "auto,always,never", ""},
		{[]string{"inject", "-f", ""}, "yaml", ""},
		{[]string{"check", ""}, "", "fluent-bit"},
		{[]string{"explain", "--context", ""}, "x", ""},
		{[]string{"explain", "--pillion-namespace", ""}, "shop", ""},
	} {
		got := completing(t, c.line...)
		for _, want := range strings.Split(strings.ReplaceAll(c.want, `\,`, "\x00"), ",") {
			if want = strings.ReplaceAll(want, "\x00", ","); want != "" && !slices.Contains(got, want) {
				t.Errorf("%v offers %q, want %s", c.line, got, want)
			}
		}
		if slices.Contains(got, c.not) || c.want == "" && len(got) > 0 {
			t.Errorf("%v offers %q, not %s", c.line, got, c.not)
		}
	}
}

// A person waits for a completion: a cluster that does not answer costs a second, and no word.
func TestACompletionDoesNotWaitForACluster(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(func() { close(done); server.Close() })
	setKubeconfig(t, server.URL)
	if got := completing(t, "params", "--cluster", ""); !slices.Contains(got, "fluent-bit") {
		t.Errorf("%q", got)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if got := completing(t, "status", "ns/"); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
