package lint

import (
	"fmt"
	"io"
)

// Report is the output of pillion lint.
type Report struct {
	Templates []TemplateReport `json:"templates"`
	Errors    int              `json:"errors"`
	Warnings  int              `json:"warnings"`
}

// TemplateReport is a result. OK: it has no error.
type TemplateReport struct {
	Result
	OK bool `json:"ok"`
}

// NewReport counts the findings of the results.
func NewReport(results []Result) Report {
	var report Report
	for _, r := range results {
		t := TemplateReport{r, true}
		t.Findings = append([]Finding{}, r.Findings...)
		for _, f := range r.Findings {
			switch f.Severity {
			case Error:
				report.Errors++
				t.OK = false
			case Warning:
				report.Warnings++
			}
		}
		report.Templates = append(report.Templates, t)
	}
	return report
}

// WriteText writes the findings, a line for each template without an error, and the counts. Hint is the last line.
func (r Report) WriteText(w io.Writer, hint string) error {
	untried := 0
	for _, t := range r.Templates {
		if t.OK && t.Tried == 0 {
			untried++
		}
		for _, f := range t.Findings {
			fmt.Fprintln(w, f)
		}
		switch {
		case t.OK && t.Tried == 0:
			fmt.Fprintf(w, "%s: template %s: compiles, and was not tried on any pod (hash %s)\n", t.Source, t.Template, t.Hash)
		case t.OK:
			fmt.Fprintf(w, "%s: template %s: ok (hash %s)\n", t.Source, t.Template, t.Hash)
		}
	}
	last := fmt.Sprintf("templates: %d, errors: %d, warnings: %d", len(r.Templates), r.Errors, r.Warnings)
	if untried > 0 {
		last += fmt.Sprintf(", not tried: %d", untried)
	}
	if hint != "" {
		last += "\n" + hint
	}
	_, err := fmt.Fprintln(w, last)
	return err
}
