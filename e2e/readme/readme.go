package readme

import (
	"regexp"
	"strings"
)

// A Walk is pages whose commands can be run one after the other.
type Walk struct {
	Before []string // what the pages' readers have already, made by commands
	Pages  []string
}

// Walks begin from an empty cluster each.
var Walks = []Walk{
	{Pages: []string{"README.md"}},
	{Pages: []string{"docs/tutorials/install.md", "docs/tutorials/first-sidecar.md", "docs/tutorials/first-template.md"}},
	{
		Before: []string{
			"helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'",
			"kubectl create namespace shop",
			"kubectl -n shop create deployment web --image=nginx",
		},
		Pages: []string{"docs/how-to/give-a-team-access.md", "docs/how-to/onboard-a-live-namespace.md", "docs/how-to/required-sidecar.md", "docs/how-to/switch-off.md"},
	},
}

// Demo is the README's section whose commands build a cluster or show the demo's output.
const Demo = "Try it"

// A Command is one line for a shell.
type Command struct {
	Section string // the heading that it stands under
	Text    string // without a prompt, and without a comment at its end
	Script  bool   // the text is a script of several lines
	Shown   string // the output that stands below it; "" where the page shows none
}

var comment = regexp.MustCompile(`\s+# .*$`)

// Commands are the commands of a page's blocks: of those that are indented by four spaces
// each line, of those marked `console` each line with a prompt, of those marked `sh` the
// whole block. A line that ends in a backslash goes on in the next. Blocks that a test records
// show what commands print, and are left out.
func Commands(text string) []Command {
	var found []Command
	section, more, recorded := "", false, false
	fence := "" // what opened the block that the line is in; "" outside of blocks
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		case fence == "" && strings.HasPrefix(line, "<!-- recorded by "):
			recorded = true
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, more = line, false
			if fence == "```sh" {
				found = append(found, Command{Section: section, Script: true})
			}
		case line == "```":
			fence, recorded = "", false
		case recorded || fence != "" && fence != "```console" && fence != "```sh":
		case fence == "```sh":
			found[len(found)-1].Text += line + "\n"
		case more:
			last := &found[len(found)-1]
			last.Text, more = goesOn(last.Text + " " + strings.TrimSpace(line))
		case fence == "```console" && !strings.HasPrefix(line, "$ "):
			found[len(found)-1].Shown += line + "\n"
		case fence == "```console", strings.HasPrefix(line, "    "):
			command := Command{Section: section}
			command.Text, more = goesOn(comment.ReplaceAllString(line[len("$ "):], ""))
			command.Text = strings.TrimSpace(command.Text)
			found = append(found, command)
		}
	}
	return found
}

func goesOn(text string) (string, bool) {
	cut, more := strings.CutSuffix(text, `\`)
	return strings.TrimSpace(cut), more
}
