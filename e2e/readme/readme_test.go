package readme

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestCommandsAreThoseOfBlocksInOrder(t *testing.T) {
	got := Commands("# A\n\n## One\ntext `not this`\n\n    first --flag   # why\n    second \\\n      more 'a # b'\n\n## Two\n```console\n$ third\nprinted\n  twice\n$ fourth\n```\n```yaml\nnot: this\n```\n")
	want := []Command{
		{Section: "One", Text: "first --flag"}, {Section: "One", Text: "second more 'a # b'"},
		{Section: "Two", Text: "third", Shown: "printed\n  twice\n", Console: true}, {Section: "Two", Text: "fourth", Console: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("commands %+v, want %+v", got, want)
	}
}

// What a shell would expand or a newcomer could not run.
func TestTheREADMEsCommandsCanBePastedIntoAShell(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := Commands(string(text))
	if len(commands) < 25 {
		t.Fatalf("%d commands", len(commands))
	}
	braces := regexp.MustCompile(`(^|\s)[^'\s]*[{\[][^'\s]*`)
	shop := false
	for _, c := range commands {
		if c.Section == "Three commands" { // the demo's transcript
			continue
		}
		if braces.MatchString(c.Text) {
			t.Errorf("%s: a shell would expand the braces of: %s", c.Section, c.Text)
		}
		shop = shop || c.Text == "kubectl create namespace shop"
		if regexp.MustCompile(`\bshop\b`).MatchString(c.Text) && !shop {
			t.Errorf("%s: there is no namespace shop yet: %s", c.Section, c.Text)
		}
	}
}
