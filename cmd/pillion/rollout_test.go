package main

import (
	"strings"
	"testing"
)

func TestARolloutsCommandLineIsCheckedBeforeTheClusterIsAsked(t *testing.T) {
	setKubeconfig(t, "https://127.0.0.1:1") // of a cluster that does not answer
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
		code, out, errs := call(t, "", nil, append([]string{"rollout"}, strings.Fields(args)...)...)
		if code != want.code || !strings.Contains(errs, want.says) || out != "" {
			t.Errorf("rollout %s: exit code %d, %s\nwant %d, %s", args, code, errs, want.code, want.says)
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
