package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func injected(t *testing.T, manifests string) string {
	t.Helper()
	code, out, errs := call(t, manifests, map[string]string{"ns.yaml": shop}, "inject", "-f", "-", "--namespace-file", "DIR/ns.yaml")
	if code != exitDone || strings.Count(out, "name: fluent-bit") == 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	return out
}

func TestUninjectKeepsWhatSomebodyChangedSince(t *testing.T) {
	out := injected(t, pod(""))
	changed := strings.Replace(out, "mountPath: /var/log/app\n      name: fluent-bit-logs\n", "mountPath: /var/log/app\n      name: own\n", 1)
	if changed == out {
		t.Fatalf("there is no mount to change in\n%s", out)
	}
	code, back, errs := call(t, changed, nil, "uninject", "-f", "-")
	if code != exitDone || !strings.Contains(back, "name: own") || strings.Contains(back, "fluent-bit") {
		t.Errorf("exit %d\n%s", code, back)
	}
	if want := "warning: Pod/web: spec.containers[name=web].volumeMounts[mountPath=/var/log/app]: it was changed to"; !strings.Contains(errs, want) {
		t.Errorf("standard error is\n%swant %q", errs, want)
	}
}

func TestUninjectPassesOnWhatWasNotInjectedAndSaysSo(t *testing.T) {
	code, out, errs := call(t, pod(""), nil, "uninject", "-f", "-")
	if code != exitDone || strings.TrimSpace(out) != strings.TrimSpace(pod("")) || !strings.Contains(errs, "was not injected") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
}

func TestUninjectTakesLabelsOffAPodWithoutARecord(t *testing.T) {
	in := strings.Replace(web, "%s", `, labels: {pillion.dev/injected: "true", fluent-bit.pillion.dev/hash: "0123456789"}`, 1)
	code, out, errs := call(t, in, nil, "uninject", "-f", "-")
	var got, want any
	if err := errors.Join(yaml.Unmarshal([]byte(out), &got), yaml.Unmarshal([]byte(pod("")), &want)); err != nil {
		t.Fatal(err)
	}
	if code != exitDone || !reflect.DeepEqual(got, want) || !strings.Contains(errs, "only Pillion's labels are removed") {
		t.Fatalf("exit %d\n%s\nof\n%s\n%s", code, out, in, errs)
	}
}

func TestUninjectOutputsAndExitCodes(t *testing.T) {
	out := injected(t, pod(""))
	for output, want := range map[string]string{"json": `"name": "web"`, "diff": "-    name: fluent-bit"} {
		if code, got, errs := call(t, out, nil, "uninject", "-f", "-", "-o", output); code != exitDone || !strings.Contains(got, want) {
			t.Errorf("-o %s: exit %d, no %q in\n%s%s", output, code, want, got, errs)
		}
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		says  string
	}{
		"no file":           {"", nil, exitUsage, "-f FILE is required"},
		"an unknown output": {out, []string{"-f", "-", "-o", "patch"}, exitUsage, "allowed are yaml, json, diff"},
		"no such file":      {"", []string{"-f", "DIR/none"}, exitError, "no such file"},
		"nothing":           {"", []string{"-f", "-"}, exitError, "there is no object in it"},
		"a broken status":   {pod("pillion.dev/status: '{'"), []string{"-f", "-"}, exitError, "failed: Pod/web: the record of what was injected cannot be read"},
	} {
		code, got, errs := call(t, c.stdin, nil, append([]string{"uninject"}, c.args...)...)
		if code != c.code || got != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, code, c.code, got, errs)
		}
	}
}
