package transcript

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const page = "# A\n\n<!-- recorded by TestA: one -->\n```console\n$ first\nprints\n\n  more\n$ second\n```\n\ntext\n\n" +
	"<!-- recorded by TestA: two -->\n| a |\n| - |\n\n```yaml\na: b\n```\n<!-- something else -->\nno block\n\n<!-- run by make walk -->\n\nno block either\n"

func TestABlockIsFencedOrStandsBelowItsOrigin(t *testing.T) {
	want := []Block{
		{Origin: "recorded by TestA: one", Line: 5, Fence: "console", Text: "$ first\nprints\n\n  more\n$ second\n"},
		{Origin: "recorded by TestA: two", Line: 15, Text: "| a |\n| - |\n"},
		{Line: 19, Fence: "yaml", Text: "a: b\n"},
	}
	if got := Blocks(page); !slices.Equal(got, want) {
		t.Errorf("blocks\n%+v\nwant\n%+v", got, want)
	}
}

func TestReplacingABlockByItselfChangesNothing(t *testing.T) {
	for _, b := range Blocks(page) {
		if b.Origin == "" {
			continue
		}
		if got, err := Replace(page, b.Origin, b.Text); got != page || err != nil {
			t.Errorf("replacing %q by itself gives (%v)\n%s", b.Origin, err, got)
		}
		changed, err := Replace(page, b.Origin, "new\n")
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range Blocks(changed) {
			if (now.Text == "new\n") != (now.Origin == b.Origin) {
				t.Errorf("replacing %q gives %+v", b.Origin, now)
			}
		}
	}
	if _, err := Replace(page, "recorded by TestB: one", ""); err == nil {
		t.Error("a block that is not there is replaced")
	}
}

func TestCommandsAreLinesWithAPrompt(t *testing.T) {
	want := []Command{{Text: "first", Shown: "prints\n\n  more\n"}, {Text: "second"}}
	if got := Commands(Blocks(page)[0].Text); !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

// heard has the errors of a test in another's name.
type heard struct {
	testing.TB
	errors int
}

func (h *heard) Helper()               {}
func (h *heard) Name() string          { return "TestA/part" }
func (h *heard) Errorf(string, ...any) { h.errors++ }

func TestARecordIsComparedAndWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	to := func(text string) func(string) string { return func(string) string { return text } }
	for _, c := range []struct {
		name, text     string
		update         bool
		errors, change int
	}{
		{name: "two", text: "| a |\n| - |\n"},
		{name: "two", text: "| b |\n", errors: 1},
		{name: "three", text: "| b |\n", update: true, errors: 1},
		{name: "two", text: "| b |\n", update: true, change: 1},
		{name: "two", text: "| b |\n"},
	} {
		before, _ := os.ReadFile(path)
		h := &heard{TB: t}
		Recorded(h, path, c.name, c.update, to(c.text))
		after, _ := os.ReadFile(path)
		if h.errors != c.errors || (string(before) != string(after)) != (c.change > 0) {
			t.Errorf("%+v: %d errors, and the page is\n%s", c, h.errors, after)
		}
	}
}

func FuzzPages(f *testing.F) {
	f.Add(page)
	f.Fuzz(func(t *testing.T, page string) {
		if got := walk(page, func(b Block) string { return b.Text }); got != page {
			t.Errorf("a page that nothing changes comes back as %q, want %q", got, page)
		}
	})
}
