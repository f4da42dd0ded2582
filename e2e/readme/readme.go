package readme

import (
	"regexp"
	"strings"
)

// A Command is one line for a shell.
type Command struct {
	Section string // the heading that it stands under
	Text    string // without a prompt, and without a comment at its end
	Shown   string // the output that stands below it; "" where the README shows none
}

var comment = regexp.MustCompile(`\s+# .*$`)

// Commands are the commands of the README's blocks: of those that are indented by four
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
