package readme

import (
	"regexp"
	"slices"
	"strings"
)

// A Command is one line for a shell.
type Command struct {
	Section string // the heading that it stands under
	Text    string // without a prompt, and without a comment at its end
	Shown   string // the output that stands below it; "" where the page shows none
	Console bool   // of a block marked console
}

var comment = regexp.MustCompile(`\s+# .*$`)

// Pages are the pages of docs/ that the README links to, in that order.
func Pages(text string) []string {
	var pages []string
	for _, found := range link.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(pages, found[1]) {
			pages = append(pages, found[1])
		}
	}
	return pages
}

var link = regexp.MustCompile(`\]\((docs/(?:[a-z-]+/)?[a-z-]+\.md)[#)]`)

// Commands are the commands of a page's blocks: of those that are indented by four
// spaces each line, of those marked `console` each line with a prompt. A line that ends in a
// backslash goes on in the next.
func Commands(text string) []Command {
	var found []Command
	section, console, more := "", false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		case strings.HasPrefix(line, "```"):
			console, more = line == "```console", false
		case more:
			last := &found[len(found)-1]
			last.Text, more = goesOn(last.Text + " " + strings.TrimSpace(line))
		case console && !strings.HasPrefix(line, "$ "):
			found[len(found)-1].Shown += line + "\n"
		case console, strings.HasPrefix(line, "    "):
			command := Command{Section: section, Console: console}
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
