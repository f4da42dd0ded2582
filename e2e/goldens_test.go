package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/e2e/ground"
)

var (
	settingsSum = regexp.MustCompile(`(checksum/settings: )\w{64}`)
	// asides are comments, empty lines, and the labels that every object of the chart has.
	asides   = regexp.MustCompile(`(?m)^ *(#.*|(app\.kubernetes\.io/(name|instance|version|managed-by)|helm\.sh/chart): .*)?\n`)
	identity = regexp.MustCompile(`(?m)^kind: (\S+)\n(?:.*\n)*?  name: "?([^\s"]+)`)
)

// renderedBy returns the objects that the chart renders by a file of values, by kind and name. It leaves out
// the policies, which the tests of stolen tokens try, and the copy of all objects for pillion check.
func renderedBy(t *testing.T, values string) string {
	t.Helper()
	image, err := checkout.Image()
	expectNoError(t, err)
	out := must(t, "", "helm", "template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "-f", values)
	out = settingsSum.ReplaceAllString(strings.ReplaceAll(out, image.Tag, "VERSION"), "${1}SUM")
	var objects []string
	for _, text := range strings.Split("\n"+out, "\n---\n")[1:] {
		id := identity.FindStringSubmatch(text)
		if id == nil {
			t.Fatalf("no object:\n%s", text)
		}
		if !strings.HasPrefix(id[1], "ValidatingAdmissionPolicy") && !strings.HasSuffix(id[2], "-rendered") {
			objects = append(objects, "# "+id[1]+" "+id[2]+"\n"+asides.ReplaceAllString(text+"\n", ""))
		}
	}
	slices.Sort(objects)
	return strings.Join(objects, "---\n")
}

// Folders of testdata/chart have values. The folder of the default values has all objects that the chart renders
// by them, and each other folder has the lines that its values change.
func TestTheChartRendersItsGoldens(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/chart/*/values.yaml")
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d goldens, %v", len(folders), err)
	}
	usual := inFile(t, "usual.yaml", renderedBy(t, "testdata/chart/default/values.yaml"))
	for _, values := range folders {
		got, file := renderedBy(t, values), filepath.Join(filepath.Dir(values), "want.yaml")
		if !strings.HasSuffix(file, "default/want.yaml") {
			diff := exec.CommandContext(t.Context(), "diff", "-U1", "--show-function-line=^# ", "--label=default", "--label=values", usual, inFile(t, "these.yaml", got))
			out, _ := diff.Output() // it ends with 1 where there is a difference
			got, file = string(out), strings.TrimSuffix(file, "yaml")+"diff"
		}
		if *update {
			expectNoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != got || got == "" {
			t.Errorf("%s (%v) is not what the chart renders:\n%s\nto record it: cd e2e && go test . -run %s -update", file, err, got, t.Name())
		}
	}
}
