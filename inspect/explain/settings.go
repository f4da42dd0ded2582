package explain

import (
	"cmp"
	"io"
)

// Setting is a parameter of a template, as a team may set it.
type Setting struct {
	Annotation, Type, Default, Allowed, SetBy, Description string
	// Value is the one that counts, From its level. From is "" where nobody asked.
	Value, From string
}

// Settings writes parameters for people, one below the other.
func Settings(w io.Writer, s Style, all []Setting) error {
	l := newLayout(s)
	for i, p := range all {
		if i > 0 {
			l.blank()
		}
		l.heading(p.Annotation)
		if p.Description != "" {
			l.text(2, p.Description, plain)
		}
		rows := []row{{label: "type", text: p.Type}, {label: "default", text: p.Default}}
		if p.From != "" {
			rows = append(rows, row{label: "value", text: cmp.Or(p.Value, `""`) + " (" + p.From + ")", colour: green})
		}
		l.rows(2, append(rows, row{label: "allowed", text: p.Allowed}, row{label: "set by", text: p.SetBy}))
	}
	_, err := io.WriteString(w, l.b.String())
	return err
}
