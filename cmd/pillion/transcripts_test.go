package main

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
)

var update = flag.Bool("update", false, "write the transcripts and the generated pages of the documentation anew")

// pages are the README and the pages of docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

// The documentation shows what the command line prints.
func TestTranscriptsThatNeedNoClusterAreTrue(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
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
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d transcripts", found)
	}
}

// untested are the transcripts that no test makes again, by page, with how many they are. The
// comment above each says why.
var untested = map[string]int{"rollout.md": 3}

// written is a part of a page that a test compares as a whole: what stands between two comments.
var written = regexp.MustCompile(`(?s)<!-- [^>]+ -->\n.*?<!-- end -->`)

// testSources are the tests by name, each with the text of its file, and the texts of the files
// that compare parts of pages between two comments.
func testSources(t *testing.T) (tests map[string]string, writers string) {
	t.Helper()
	tests = map[string]string{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..":
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range name.FindAllStringSubmatch(string(text), -1) {
			tests[f[1]] = string(text)
		}
		if strings.Contains(string(text), "<!-- end -->") {
			writers += string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, writers
}

// A transcript that nobody runs is wrong some day, and nobody notices.
func TestEveryTranscriptHasATest(t *testing.T) {
	tests, writers := testSources(t)
	prompt := regexp.MustCompile(`(?m)^ {0,4}\$ .*[^\\]\n`)
	excepted := map[string]int{}
	for path, text := range pages(t) {
		page := filepath.Base(path)
		text = written.ReplaceAllStringFunc(text, func(part string) string {
			if prompt.MatchString(part) && !strings.Contains(writers, page) {
				t.Errorf("%s: no test writes the part of the page that begins with %.40s", page, part)
			}
			return strings.Repeat("\n", strings.Count(part, "\n"))
		})
		outside := text
		for _, b := range transcript.Blocks(text) {
			outside = strings.Replace(outside, b.Text, "", 1)
			test, name, _ := strings.Cut(strings.TrimPrefix(b.Origin, "recorded by "), ": ")
			switch {
			case strings.HasPrefix(b.Origin, "recorded by "):
				if !strings.Contains(tests[test], `"`+page+`"`) || name == "" {
					t.Errorf("%s:%d: no test %s is about this page", page, b.Line, test)
				}
			case strings.HasPrefix(b.Origin, "run in "):
				if b.Fence != "console" {
					t.Errorf("%s:%d: a transcript begins with ```console", page, b.Line)
				}
			case b.Origin == "run by make walk":
				if page != "README.md" {
					t.Errorf("%s:%d: make walk runs the README alone", page, b.Line)
				}
			case strings.HasPrefix(b.Origin, "not tested: "):
				excepted[page]++
			case b.Fence == "console" || prompt.MatchString(b.Text):
				t.Errorf("%s:%d: nobody tests this transcript; the comment above it says who does, see docs/transcript", page, b.Line)
			}
		}
		if first := prompt.FindString(outside); first != "" {
			t.Errorf("%s: a transcript that is no block of ```console: %s", page, first)
		}
	}
	for page, n := range excepted {
		if n != untested[page] {
			t.Errorf("%d transcripts of %s are not tested, want %d", n, page, untested[page])
		}
	}
	for page := range untested {
		if excepted[page] == 0 {
			t.Errorf("each transcript of %s is tested: it is no exception any more", page)
		}
	}
}
