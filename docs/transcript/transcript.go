package transcript

import (
	"fmt"
	"regexp"
	"strings"
)

// A Block is a part of a page.
type Block struct {
	Origin string // the comment above it; "" if there is none
	Line   int    // its first line, from 1
	Fence  string // the word behind the fence, such as "console"; "" without a fence
	Text   string // its lines without the fence, each with its end
}

var origin = regexp.MustCompile(`^<!-- (run in .+|recorded by .+|run by .+|not tested: .+) -->$`)

// Blocks returns the fenced blocks of a page, and all that have an origin.
func Blocks(page string) []Block {
	var found []Block
	walk(page, func(b Block) string {
		found = append(found, b)
		return b.Text
	})
	return found
}

// Replace returns the page with the text of the block of an origin replaced. The text ends in
// a line's end. It fails unless there is exactly one such block.
func Replace(page, origin, text string) (string, error) {
	count := 0
	page = walk(page, func(b Block) string {
		if b.Origin != origin {
			return b.Text
		}
		count++
		return text
	})
	if count != 1 {
		return "", fmt.Errorf("%d blocks stand below the comment <!-- %s -->, want one", count, origin)
	}
	return page, nil
}

// walk calls change for each block, and returns the page with the texts that it returns.
func walk(page string, change func(Block) string) string {
	var out strings.Builder
	lines := strings.SplitAfter(page, "\n")
	from := ""
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], "\n")
		fence, fenced := strings.CutPrefix(line, "```")
		if !fenced {
			fence = ""
		}
		if m := origin.FindStringSubmatch(line); m != nil {
			from = m[1]
			out.WriteString(lines[i])
			continue
		}
		if !fenced && (from == "" || line == "") {
			from = ""
			out.WriteString(lines[i])
			continue
		}
		b := Block{Origin: from, Line: i + 1, Fence: fence}
		from = ""
		if fenced {
			out.WriteString(lines[i])
			i++
			b.Line++
		}
		for ; i < len(lines); i++ {
			if end := strings.TrimRight(lines[i], "\n"); fenced && end == "```" || !fenced && end == "" {
				break
			}
			b.Text += lines[i]
		}
		out.WriteString(change(b))
		if i < len(lines) {
			out.WriteString(lines[i])
		}
	}
	return out.String()
}

// A Command is a line of a console block that begins with a prompt.
type Command struct {
	Text  string // without the prompt
	Shown string // the lines below it
}

// Commands returns the commands of a console block. Lines before the first command are left out.
func Commands(text string) []Command {
	var found []Command
	for line := range strings.Lines(text) {
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case prompt:
			found = append(found, Command{Text: strings.TrimSuffix(command, "\n")})
		case len(found) > 0:
			found[len(found)-1].Shown += line
		}
	}
	return found
}
