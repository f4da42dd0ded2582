package explain

import (
	"cmp"
	"encoding/json"
	"io"
	"strings"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Setting is a parameter as its template declares it, with the value for a plain pod of a namespace and
// its level. From is "" without a namespace.
type Setting struct {
	v1alpha1.Parameter
	Annotation string `json:"annotation"`
	// SecondAnnotation is the declaration's, whose name in JSON is that of Annotation here.
	SecondAnnotation string `json:"secondAnnotation,omitempty"`
	Allowed          string `json:"allowed"`
	Value            any    `json:"value,omitempty"`
	From             string `json:"from,omitempty"`
}

// Settings writes parameters as text.
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
		rows := []row{{label: "type", text: string(p.Type)}, {label: "default", text: p.byDefault()}}
		if p.SecondAnnotation != "" {
			rows = append([]row{{label: "or", text: p.SecondAnnotation}}, rows...)
		}
		if p.From != "" {
			rows = append(rows, row{label: "value", text: cmp.Or(Value(p.Value), `""`) + " (" + p.From + ")", colour: green})
		}
		var levels []string
		for _, level := range p.SetBy {
			levels = append(levels, string(level))
		}
		l.rows(2, append(rows, row{label: "allowed", text: p.Allowed}, row{label: "set by", text: cmp.Or(strings.Join(levels, ", "), "the installer only")}))
	}
	_, err := io.WriteString(w, l.b.String())
	return err
}

func (s Setting) byDefault() string {
	switch {
	case len(s.Default) > 0:
		return Text(s.Default)
	case s.Required:
		return "(required)"
	}
	return "-"
}

// Text formats a JSON value as in an annotation.
func Text(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
