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
		"shop --restart --in-place": {exitUsage, "--restart and --in-place: choose one"},
		"shop --timeout 0s":         {exitUsage, "--timeout is 0s; allowed are positive durations such as 5m"},
		"shop":                      {exitError, "reading Pillion's settings in namespace pillion-system: "},
	} {
		code, out, errs := call(t, "", nil, append([]string{"rollout"}, strings.Fields(args)...)...)
		if code != want.code || !strings.Contains(errs, want.says) || out != "" {
			t.Errorf("rollout %s: exit code %d, %s\nwant %d, %s", args, code, errs, want.code, want.says)
		}
	}
}
