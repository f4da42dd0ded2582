package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates"
)

var update = flag.Bool("update", false, "write the transcript of the documentation anew")

// imported runs the command with an input.
func imported(t *testing.T, input string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := newCommand()
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs([]string{"-"})
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

// What can be imported is, whatever stands beside it. Only where nothing can, the command fails.
func TestImportFailsOnlyWhereNothingCanBeImported(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
	out, errs, err := imported(t, service)
	if err == nil || out != "" || !strings.Contains(errs, "note: Service/web: ") {
		t.Errorf("%v, %q, %q", err, out, errs)
	}
	out, errs, err = imported(t, service+"---\nname: cache\ncontainers: [{name: cache, image: \"memcached:1.6\"}]\n")
	if err != nil || !strings.Contains(out, "name: cache") || !strings.Contains(errs, "note: Service/web: ") {
		t.Errorf("%v, %q, %q", err, out, errs)
	}
	file := filepath.Join(t.TempDir(), "t.yaml")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := manifests.ReadTemplates(file)
	if err != nil || len(read) != 1 {
		t.Fatalf("%d templates, %v", len(read), err)
	}
	if entry := read[0].Compile(templates.Options{}, ""); entry.Err != nil || entry.Name != "cache" {
		t.Errorf("the imported template is %s, %v", entry.Name, entry.Err)
	}
}

func TestThePageOfMigrationShowsAnImport(t *testing.T) {
	transcript.Recorded(t, "../../../docs/how-to/migrate.md", "import", *update, func(string) string {
		text, err := os.ReadFile("testdata/logs.yaml")
		if err != nil {
			t.Fatal(err)
		}
		out, errs, err := imported(t, string(text))
		if err != nil {
			t.Fatal(err)
		}
		return "$ pillion-import logs.yaml\n" + errs + out
	})
}
