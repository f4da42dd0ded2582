package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/inspect/manifests"
)

// Where the tests run decides about no golden text.
func init() { os.Unsetenv("COLUMNS") }

func TestParamsOfAClusterSayWhichLevelSetWhat(t *testing.T) {
	c := inspecttest.Live(t, inspecttest.Shop, nil)
	paramsOf := func(c *inspect.Live, namespace string, out io.Writer, args ...string) error {
		return (&paramsCommand{source: source{Options: manifests.Options{Namespace: namespace}}}).of(t.Context(), out, c.Templates, c, args)
	}
	for namespace, wants := range map[string][]string{
		"":     {"side.pillion.dev/level type string default low allowed text set by Namespace, Pod", "side.pillion.dev/size type quantity default 1Mi allowed"},
		"shop": {"side.pillion.dev/level type string default low value low (Default) allowed", "side.pillion.dev/size type quantity default 1Mi value 2Mi (Namespace) allowed", "value registry.example.com/side:2 (Default)"},
	} {
		var out bytes.Buffer
		if err := paramsOf(c, namespace, &out, "side"); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(flat(out.String()), want) {
				t.Errorf("namespace %q: no %q in\n%s", namespace, want, out.String())
			}
		}
	}
	hostile := inspecttest.Live(t, strings.Replace(inspecttest.Shop, "side.pillion.dev/size: 2Mi", `side.pillion.dev/level: "a\x1b[2J\n\r\u009b31m\u202e `+strings.Repeat("x", 100<<10)+`"`, 1), nil)
	var shown bytes.Buffer
	if err := paramsOf(hostile, "shop", &shown, "side", "level"); err != nil || strings.ContainsAny(shown.String(), "\x1b\r\u009b\u202e") || shown.Len() > 4000 || !strings.Contains(flat(shown.String()), `value a\x1b[2J; \r\u009b31m\u202e xxx`) {
		t.Errorf("a value that commands a terminal: %v\n%q", err, shown.String())
	}
}

func TestParamsAreWrittenAsJSON(t *testing.T) {
	type parameter struct {
		Name, Annotation, Type, From string
		Required                     bool
		Default, Value               any
		SetBy                        []string
	}
	var report struct {
		Template, Hash, Namespace string
		Parameters                []parameter
	}
	var out bytes.Buffer
	live := inspecttest.Live(t, inspecttest.Shop, nil)
	err := (&paramsCommand{source: source{Options: manifests.Options{Namespace: "shop"}}, output: "json"}).of(t.Context(), &out, live.Templates, live, []string{"side", "size"})
	if err := errors.Join(err, json.Unmarshal(out.Bytes(), &report)); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want := []parameter{{"size", "side.pillion.dev/size", "quantity", "Namespace", false, "1Mi", "2Mi", []string{"Namespace", "Pod"}}}
	if diff := cmp.Diff(want, report.Parameters); diff != "" || report.Template != "side" || report.Hash == "" || report.Namespace != "shop" {
		t.Errorf("%+v (-want +got):\n%s", report, diff)
	}
}

// What inject writes is applied. So it writes nothing where a sidecar may be missing because a
// right is.
func TestInjectOfAClusterWritesNothingThatItCannotKnow(t *testing.T) {
	const file = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {template: {spec: {containers: [{name: api, image: 'api:1'}]}}}\n"
	for name, forbidden := range map[string][]string{"all can be read": nil, "not the server's settings": inspecttest.TeamsRights, "not the namespace": {"get namespaces"}} {
		cl := inspecttest.Live(t, inspecttest.Shop, nil, forbidden...)
		s := &manifests.Session{Session: cl.Session()}
		documents, parseErr := workload.Parse([]byte(file))
		ns, nsErr := cl.NamespaceOf(t.Context(), "shop")
		if err := errors.Join(parseErr, nsErr); err != nil {
			t.Fatal(err)
		}
		s.Documents = documents
		s.Namespaces.Add(ns)
		var errs, out bytes.Buffer
		if err := checkRead(&errs, s); len(forbidden) > 0 {
			if err == nil || !strings.Contains(err.Error(), "you lack the rights to read") || !strings.Contains(errs.String(), "you lack the right to") && !strings.Contains(errs.String(), "An admin can grant more") {
				t.Errorf("%s: %v\n%s", name, err, &errs)
			}
			continue
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		report, err := s.Inject(t.Context())
		if err != nil || len(report.Results) != 1 || !report.Results[0].IsChanged {
			t.Fatalf("%s: %v %+v", name, err, report)
		}
		if err := writeYAML(&out, report.Results); err != nil || !strings.Contains(out.String(), "memory: 2Mi") || !strings.Contains(out.String(), "value: low") {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
}

func TestWhatIsForFilesIsRefusedBesideACluster(t *testing.T) {
	for _, args := range [][]string{
		{"explain", "pod/web", "--templates", "x"}, {"explain", "--cluster", "-f", "-", "--namespace-file", "x"}, {"inject", "--cluster", "-f", "-", "--values", "x"},
		{"params", "side", "--cluster", "--library", "x"}, {"params", "side", "-n", "shop"}, {"explain"}, {"explain", "pod/web", "-f", "-"},
		{"explain", "-f", "-", "--color", "sometimes"},
	} {
		if code, out, errs := call(t, pod(""), nil, args...); code != exitUsage || out != "" {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
		}
	}
}
