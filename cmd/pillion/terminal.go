package main

import (
	"io"
	"os"
	"strconv"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/pillion-dev/pillion/inspect/explain"
)

// defaultWidth is the number of columns where nothing says another.
const defaultWidth = 80

func colourFlag(f *pflag.FlagSet, to *string) {
	*to = "auto"
	f.Var(choice{to, []string{"auto", "always", "never"}}, "color", "auto (on a terminal, unless NO_COLOR is set), always or never")
}

// styleFor returns how text is written to w: as wide as $COLUMNS or the terminal says, and in
// colour if asked for, or on a terminal that wants it (https://no-color.org).
func styleFor(w io.Writer, colour string) explain.Style {
	s := explain.Style{Width: defaultWidth, Colour: colour == "always"}
	file, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd()))
	if terminal {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			s.Width = width
		}
		if colour == "auto" {
			s.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		}
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		s.Width = columns
	}
	return s
}
