package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARolloutsCommandLineIsCheckedBeforeTheClusterIsAsked(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config") // of a cluster that does not answer
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"":                          {exitUsage, "rollout takes one template or namespace, got 0"},
		"a b":                       {exitUsage, "rollout takes one template or namespace, got 2"},
		"deploy/web":                {exitUsage, `"deploy/web" names neither a template nor a namespace; allowed are NAME, sct/NAME and ns/NAME; of one workload, pillion explain -n NAMESPACE deploy/web says`},
		"other/web":                 {exitUsage, `"other/web" names neither a template nor a namespace; allowed are NAME, sct/NAME and ns/NAME` + "\n"},
		"ns/":                       {exitUsage, `"ns/" names neither a template nor a namespace`},
		"shop --evict --in-place":   {exitUsage, "--evict, --restart and --in-place: choose one"},
		"shop --wave none":          {exitUsage, `--wave is "none"; allowed is a number from 1, or a percentage from 1% to 100%`},
		"shop --pods app=(":         {exitUsage, `--pods is "app=(": `},
		"shop --except web":         {exitUsage, `--except is "web"; allowed are workloads as NAMESPACE/KIND/NAME, such as shop/deployment/web`},
		"shop --timeout 0s":         {exitUsage, "--timeout is 0s; allowed are positive durations such as 5m"},
		"shop":                      {exitError, "looking for Pillion's Deployment in namespace pillion-system: "},
		"shop --library no":         {exitError, `"no"`},
		"shop --templates /nowhere": {exitError, "reading templates: stat /nowhere"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"pillion", "rollout", "--kubeconfig", config}, strings.Fields(args)...), nil, &out, &errs)
		if code != want.code || !strings.Contains(errs.String(), want.says) || out.Len() > 0 {
			t.Errorf("rollout %s: exit code %d, %s\nwant %d, %s", args, code, errs.String(), want.code, want.says)
		}
	}
}

// The command that is named does the same once more, and what is left out comes at its end.
func TestARolloutNamesItsOwnCommandLine(t *testing.T) {
	cmd := newRolloutCommand()
	if err := cmd.ParseFlags([]string{"sct/mesh", "--restart", "-n", "shop", "--pods", "app in (a,b)", "--except", "shop/deploy/Web", "--library=a,b", "--context", "prod"}); err != nil {
		t.Fatal(err)
	}
	r := rolloutCommand{}
	if got, want := r.again(cmd), "rollout sct/mesh --context prod --library a,b --namespace shop --pods 'app in (a,b)' --restart"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
