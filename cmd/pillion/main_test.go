package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

func TestEveryCommandNamesTheRightThatTheUserLacks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(w, `{"major":"1","minor":"37"}`)
			return
		}
		path := strings.Split(r.URL.Path, "/")
		says := fmt.Errorf(`User "mia" cannot list resource %q in API group "" in the namespace "own"`, path[len(path)-1])
		w.WriteHeader(http.StatusForbidden)
		status := apierrors.NewForbidden(schema.GroupResource{}, "", says).ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		_ = json.NewEncoder(w).Encode(status)
	}))
	defer server.Close()
	setKubeconfig(t, server.URL)
	for line, resource := range map[string]string{
		"rollout shop": "configmaps", "status shop": "pods", "promote next": "next", "unlabel": "namespaces",
	} {
		code, _, errs := call(t, "", nil, strings.Fields(line)...)
		want := "pillion: you lack the right to list " + resource + " in namespace own. An admin can grant it: kubectl -n own create role pillion-list-" + resource + " --verb=list --resource=" + resource + "; "
		if code != exitError || !strings.HasPrefix(errs, want) || !strings.Contains(errs, "--user=mia: ") {
			t.Errorf("%s: exit %d, %s\nwant %q", line, code, errs, want)
		}
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
