package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/inspect/check"
)

//go:generate go test . -run TestTheChartHasItsDefaultsAtHand -update

const chart = "../../charts/pillion/"

// readChart reads a file of the chart. A key that stands in it twice is an error.
func readChart(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(chart + file)
	if err == nil {
		text, err = yaml.YAMLToJSONStrict(text)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Helm gives templates no values.yaml: with --reuse-values they see the values of the chart that was
// installed. So the chart has its defaults in a file of its own, and every template begins with them.
func TestTheChartHasItsDefaultsAtHand(t *testing.T) {
	const head = "# The values of values.yaml, for templates: go generate ./cmd/pillion writes this file.\n"
	var parsed map[string]any
	readChart(t, "values.yaml", &parsed)
	want, err := yaml.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	want = append([]byte(head), want...)
	if *update {
		if err := os.WriteFile(chart+"files/defaults.yaml", want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(chart + "files/defaults.yaml")
	if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
		t.Errorf("files/defaults.yaml (%v, -want +got):\n%s", err, diff)
	}
	for _, pattern := range []string{"*.yaml", "*.txt"} {
		files, err := filepath.Glob(chart + "templates/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(text, []byte(`{{- include "pillion.values" . -}}`)) {
				t.Errorf("%s (%v) does not begin with the chart's defaults", file, err)
			}
		}
	}
}

// A release has one version: the chart's, its image's tag, and, with a v before it, that of the
// program and the tag in git. `make release` refuses another VERSION.
func TestTheChartHasTheVersionOfTheProgramAndTheOldestKubernetes(t *testing.T) {
	var c struct{ Version, AppVersion, KubeVersion string }
	readChart(t, "Chart.yaml", &c)
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`).MatchString(c.Version) || c.AppVersion != c.Version {
		t.Errorf("the chart's version is %q and its appVersion %q, want the same SemVer", c.Version, c.AppVersion)
	}
	if want := ">=" + check.OldestKubernetes.String() + ".0-0"; c.KubeVersion != want {
		t.Errorf("the chart's kubeVersion is %q, want %q: the oldest that is tested", c.KubeVersion, want)
	}
	tags, err := exec.Command("git", "tag", "--points-at", "HEAD", "v*").Output()
	if err != nil {
		t.Skipf("not a Git checkout: %v", err)
	}
	for _, tag := range strings.Fields(string(tags)) {
		if tag != "v"+c.Version {
			t.Errorf("the commit has the tag %s, and the chart the version %s", tag, c.Version)
		}
	}
	cmd := exec.Command("bash", ".ci/release", "v0.0.0-other", filepath.Join(t.TempDir(), "dist"))
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.Version) {
		t.Errorf("a release of another version (%v) says %q", err, out)
	}
}
