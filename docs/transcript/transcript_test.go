package transcript

import (
	"testing"
)

const page = "# A\n\n<!-- recorded by TestA: one -->\n```console\n$ first\nprints\n\n  more\n$ second\n```\n\ntext\n\n" +
	"<!-- recorded by TestA: two -->\n| a |\n| - |\n\n```yaml\na: b\n```\n<!-- something else -->\nno block\n\n<!-- run by make walk -->\n\nno block either\n"

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

func FuzzPages(f *testing.F) {
	f.Add(page)
	f.Fuzz(func(t *testing.T, page string) {
		if got := walk(page, func(b Block) string { return b.Text }); got != page {
			t.Errorf("a page that nothing changes comes back as %q, want %q", got, page)
		}
	})
}
