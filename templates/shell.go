package templates

import (
	"slices"
	"strings"
)

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "ksh"}

// runsShell reports whether the words of a command, its arguments included, give a script
// to a shell. A part with an expression stands for all words that the expression spells
// out.
func runsShell(command []textPart) bool {
	shell, dashC := false, false
	word := func(text string) {
		shell = shell || slices.Contains(shells, text[strings.LastIndexByte(text, '/')+1:])
		dashC = dashC || len(text) < 6 && strings.HasPrefix(text, "-") && strings.HasSuffix(text, "c")
	}
	for _, p := range command {
		if p.expression == nil {
			word(p.literal)
			continue
		}
		for _, text := range p.expression.Words() {
			word(text)
		}
	}
	return shell && dashC
}

// shellQuotes follows a shell's script through its quotes.
type shellQuotes struct {
	open    rune // the quote that is open, or 0
	escaped bool
}

func (q *shellQuotes) read(script string) {
	for _, r := range script {
		switch {
		case q.escaped:
			q.escaped = false
		case r == '\\' && q.open != '\'':
			q.escaped = true
		case q.open == 0 && (r == '\'' || r == '"'):
			q.open = r
		case q.open == r:
			q.open = 0
		}
	}
}
