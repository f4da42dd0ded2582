package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/internal/errtest"
)

var update = flag.Bool("update", false, "write the transcripts and the generated pages of the documentation anew")

// pages are the README and the pages of docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		errtest.ExpectNone(t, err)
		for _, path := range found {
			text, err := os.ReadFile(path)
			errtest.ExpectNone(t, err)
			all[path] = string(text)
		}
	}
	return all
}

// The documentation shows what the command line prints.
func TestTranscriptsThatNeedNoClusterAreTrue(t *testing.T) {
	here, err := os.Getwd()
	errtest.ExpectNone(t, err)
	found := 0
	for path, text := range pages(t) {
		for _, b := range transcript.Blocks(text) {
			dir, offline := strings.CutPrefix(b.Origin, "run in ")
			if !offline {
				continue
			}
			found++
			t.Chdir(filepath.Join(here, "../..", dir))
			want := ""
			for _, c := range transcript.Commands(b.Text) {
				line := strings.Fields(c.Text)
				if line[0] != "pillion" {
					t.Fatalf("%s:%d: %s: only pillion is run here", path, b.Line, c.Text)
				}
				var out bytes.Buffer
				run(context.Background(), line, strings.NewReader(""), &out, &out)
				want += "$ " + c.Text + "\n" + out.String()
			}
			t.Chdir(here)
			if want == b.Text {
				continue
			}
			if !*update {
				t.Errorf("%s:%d shows something else than the commands print (-update writes it):\n%s", path, b.Line, want)
				continue
			}
			// A command stands once in a page: several blocks have the same folder.
			text = strings.Replace(text, "```console\n"+b.Text+"```\n", "```console\n"+want+"```\n", 1)
			errtest.ExpectNone(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	if found == 0 {
		t.Error("no page has a transcript that needs no cluster")
	}
}
