package main

import "io"

// The colours of texts, as ANSI codes.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	grey   = "90"
)

// palette paints texts, or leaves them plain.
type palette struct{ on bool }

// newPalette returns the palette for what is written to w. Choice is the value of --color.
func newPalette(choice string, w io.Writer) (palette, error) {
	style, err := styleFor(w, choice)
	return palette{style.Colour}, err
}

// paint returns the text in a colour.
func (p palette) paint(color, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
