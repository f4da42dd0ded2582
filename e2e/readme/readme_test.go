package readme

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestCommandsAreThoseOfBlocksInOrder(t *testing.T) {
	got := Commands("# A\n\n## One\ntext `not this`\n\n    first --flag   # why\n    second \\\n      more 'a # b'\n\n## Two\n```console\n$ third\nprinted\n  twice\n$ fourth\n```\n```yaml\nnot: this\n    nor: this\n```\n<!-- recorded by TestX: y -->\n```console\n$ not this\n    nor this\n```\n```sh\ncat <<E\n## $ it\nE\n```\n")
	want := []Command{
		{Section: "One", Text: "first --flag"}, {Section: "One", Text: "second more 'a # b'"},
		{Section: "Two", Text: "third", Shown: "printed\n  twice\n", Console: true}, {Section: "Two", Text: "fourth", Console: true}, {Section: "Two", Text: "cat <<E\n## $ it\nE\n", Script: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("commands %+v, want %+v", got, want)
	}
}

// A shell would expand braces, and a newcomer has no namespace shop before one is made.
func TestTheCommandsOfTheWalksCanBePastedIntoAShell(t *testing.T) {
	braces := regexp.MustCompile(`(^|\s)[^'\s]*[{\[][^'\s]*`)
	const makeShop = "kubectl create namespace shop"
	count := 0
	for _, walk := range Walks {
		shop := slices.Contains(walk.Before, makeShop)
		for _, page := range walk.Pages {
			text, err := os.ReadFile("../../" + page)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range Commands(string(text)) {
				count++
				if c.Section == Demo || c.Script {
					continue
				}
				if braces.MatchString(c.Text) {
					t.Errorf("%s, %s: a shell would expand the braces of: %s", page, c.Section, c.Text)
				}
				shop = shop || c.Text == makeShop
				if regexp.MustCompile(`\bshop\b`).MatchString(c.Text) && !shop {
					t.Errorf("%s, %s: there is no namespace shop yet: %s", page, c.Section, c.Text)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("%d commands", count)
	}
}
