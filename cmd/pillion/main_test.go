package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
)

func TestAWrongCommandLineSaysWhatWasMeantAndWhereToLook(t *testing.T) {
	for line, want := range map[string]string{
		"explan":          "unknown command \"explan\"; did you mean explain?\nSee 'pillion --help'.\n",
		"explain --foo":   "unknown flag: --foo\nSee 'pillion explain --help'.\n",
		"check -n own":    "unknown shorthand flag: 'n' in -n; --pillion-namespace names Pillion's namespace\nSee 'pillion check --help'.\n",
		"version -n own":  "unknown shorthand flag: 'n' in -n\nSee 'pillion version --help'.\n",
		"explain web":     "name an object with its kind: pod/web, deploy/web,",
		"explain svc/web": `explain does not support the kind "svc"; allowed are pod, deploy, sts, ds, rs, rc, cj, job, ns`,
		"explain deploy/": `"deploy/" has no name: deploy/NAME`,
		"library lits":    "unknown command \"lits\"; did you mean list?\nSee 'pillion library --help'.\n",
		"completion zhs":  "unknown command \"zhs\"; did you mean zsh?\nSee 'pillion completion --help'.\n",
	} {
		code, out, errs := call(t, "", nil, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q\n%s\nwant %q", line, code, out, errs, want)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"/bin/kubectl-pillion", "explain", "--foo"}, strings.NewReader(""), &out, &errs); code != exitUsage || !strings.HasSuffix(errs.String(), "See 'kubectl pillion explain --help'.\n") {
		t.Errorf("as kubectl's plugin: %d %s", code, &errs)
	}
}

// What a file or a cluster says must not command the terminal of the person who reads it.
func TestNoMessageCommandsATerminal(t *testing.T) {
	const hostile = `x\u001b[2J\u009b31m\u202ey\r`
	object := strings.ReplaceAll(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","annotations":{"pillion.dev/inject":"NAME"}},"spec":{"containers":[{"name":"NAME","image":"NAME"}]}}`, "NAME", hostile)
	injected := strings.Replace(object, `"pillion.dev/inject":"`+hostile+`"`, `"pillion.dev/inject":"environment"`, 1)
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{object, []string{"inject", "-f", "-"}}, {object, []string{"explain", "-f", "-"}}, {object, []string{"explain", "-f", "-", "-o", "json"}}, {object, []string{"uninject", "-f", "-"}},
		{injected, []string{"inject", "-f", "-", "-o", "diff"}}, {injected, []string{"inject", "-f", "-", "-o", "json"}}, {injected, []string{"explain", "-f", "-"}}, {"{" + hostile, []string{"inject", "-f", "-"}},
	} {
		_, out, errs := call(t, c.stdin, nil, c.args...)
		if c.args[0] == "uninject" {
			out = "" // the document, as it was given
		}
		if strings.ContainsAny(out+errs, "\x1b\u009b\u202e\r") || out+errs == "" {
			t.Errorf("%v: %q\n%q", c.args, out, errs)
		}
	}
}

// runLine runs a command line as it is.
func runLine(t *testing.T, stdin, line string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append([]string{"pillion"}, strings.Fields(line)...), strings.NewReader(stdin), &out, &errs)
	return code, errs.String()
}

func TestANewcomerIsToldHowToReachACluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, command := range []string{"explain pod/web", "check", "status", "params fluent-bit --cluster", "inject --cluster -f -"} {
		code, errs := runLine(t, pod(""), command)
		if code != exitError || !strings.Contains(errs, "there is no kubeconfig: give --kubeconfig FILE, set KUBECONFIG") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
	setKubeconfig(t, "http://127.0.0.1:1")
	for _, command := range []string{"explain pod/web", "params fluent-bit --cluster", "inject --cluster -f -", "status"} {
		code, errs := runLine(t, pod(""), command)
		if code != exitError || !strings.Contains(errs, "the API server http://127.0.0.1:1 does not answer (kubectl cluster-info; --context and --kubeconfig choose another)") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
}

// -n is the namespace of pods, as kubectl's. Pillion's own has the same flag in each command that
// looks for Pillion, and a message that names it is true of all of them.
func TestPillionsNamespaceHasOneFlagAndTheNamespaceOfPodsAnother(t *testing.T) {
	var where []string
	for _, cmd := range commands() {
		own, n := cmd.Flags().Lookup("pillion-namespace"), cmd.Flags().ShorthandLookup("n")
		if own != nil {
			where = append(where, cmd.Name())
		}
		if own != nil && (own.Shorthand != "" || own.DefValue != injector.DefaultNamespace) || n != nil && (n.Name != "namespace" || strings.Trim(n.DefValue, "[]") != "" || strings.Contains(n.Usage, "Pillion's own")) {
			t.Errorf("%s: %+v, %+v", cmd.CommandPath(), own, n)
		}
	}
	for _, name := range []string{"status", "check", "rollout", "explain", "inject", "params", "policy"} {
		if !slices.Contains(where, name) {
			t.Errorf("%s has no --pillion-namespace", name)
		}
	}
	_, err := inspecttest.Cluster(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", inspecttest.Options{Place: inspect.Place{Namespace: "sidecars"}}).Settings(t.Context())
	if want := "; --pillion-namespace names Pillion's namespace"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
