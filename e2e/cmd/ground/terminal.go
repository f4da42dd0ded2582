package main

import (
	"fmt"
	"html"
	"strings"
)

const (
	columns               = 104
	charWidth, lineHeight = 8.2, 19.0
	margin, bar           = 20.0, 34.0
)

// A line is a row of the terminal, and when it appears, in seconds.
type line struct {
	text, class string
	at, typing  float64
}

// still is for how many seconds all lines are shown at first.
const still = 1.5

// drawTerminal returns an SVG in which the scenes appear one after the other, by CSS alone. Lines that
// are still to come are dim, so that a still of any moment can be read. Without animations, and for
// people who want few, all lines are bright.
func drawTerminal(scenes []scene) string {
	lines, now := []line{}, still+0.5
	add := func(text, class string, typing float64) {
		for i, row := range wrap(text) {
			if i > 0 {
				typing = 0
			}
			lines = append(lines, line{row, class, now, typing})
			now += typing + 0.05
		}
	}
	for _, s := range scenes {
		if s.comment != "" {
			if len(lines) > 0 {
				add("", "o", 0)
			}
			add("# "+s.comment, "c", 0)
			now += 0.4
		}
		add("$ "+s.command, "p", 0.8)
		now += 0.4
		class := "o"
		if s.failed {
			class = "e"
		}
		for row := range strings.Lines(s.output) {
			add(strings.TrimRight(row, "\n"), class, 0)
		}
		now += 1.2
	}
	width, height := 2*margin+columns*charWidth, bar+float64(len(lines))*lineHeight+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="title">
<title id="title">A terminal. Pillion is installed with Helm, a namespace is annotated, and its pods get the sidecar fluent-bit, but for one that opts out. A wrong value is refused, and pillion explain says why a pod has no sidecar.</title>
<style>
text { font: 13.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
.p { fill: #f0f6fc; font-weight: 600 } .o { fill: #b1bac4 } .e { fill: #ffa198 } .c { fill: #7ee787 }
@media (prefers-reduced-motion: no-preference) {
  text { animation: dim .3s 1.5s forwards, show .01s var(--at) forwards }
  .t { animation: dim .3s 1.5s forwards, show .01s var(--at) forwards, type .8s steps(40) var(--at) }
  @keyframes dim { to { opacity: .28 } }
  @keyframes show { to { opacity: 1 } }
  @keyframes type { from { clip-path: inset(0 100%% 0 0) } to { clip-path: inset(0 0 0 0) } }
}
</style>
<rect width="100%%" height="100%%" rx="10" fill="#0d1117"/><rect x=".5" y=".5" width="%.0f" height="%.0f" rx="10" fill="none" stroke="#3d444d"/>
<circle cx="22" cy="17" r="6" fill="#ff7b72"/><circle cx="42" cy="17" r="6" fill="#d29922"/><circle cx="62" cy="17" r="6" fill="#3fb950"/>
`, width, height, width-1, height-1)
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		class := l.class
		if l.typing > 0 {
			class += " t"
		}
		fmt.Fprintf(&b, "<text class=\"%s\" style=\"--at:%.2fs\" x=\"%.0f\" y=\"%.0f\" textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\">%s</text>\n",
			class, l.at, margin, bar+float64(i+1)*lineHeight-4, float64(len([]rune(l.text)))*charWidth, html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// wrap breaks a text at the terminal's width, after a space where there is one near.
func wrap(text string) []string {
	var rows []string
	for rest := []rune(text); ; {
		if len(rest) <= columns {
			return append(rows, string(rest))
		}
		end := columns
		if space := strings.LastIndex(string(rest[:columns]), " "); space > columns*2/3 {
			end = len([]rune(string(rest[:columns])[:space])) + 1
		}
		rows = append(rows, strings.TrimRight(string(rest[:end]), " "))
		rest = append([]rune("  "), rest[end:]...)
	}
}
