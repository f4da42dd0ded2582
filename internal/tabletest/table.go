// Package tabletest reads the tables of tests from files.
package tabletest

import (
	"os"
	"strings"
	"testing"
)

// Row is a row of a table: an input, and what comes of it.
type Row struct {
	Name, Input string
	// Wants are the results. A row without a result has none.
	Wants []string
}

// Want returns the first result, or "".
func (r Row) Want() string { return strings.Join(r.Wants[:min(1, len(r.Wants))], "") }

// Rows reads a file of rows with empty lines between them: a line "# NAME", the input, and a line "=> WANT" for
// each result. What precedes the first row is a comment.
func Rows(t testing.TB, file string) []Row {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n\n# ")
	if !ok {
		t.Fatalf("%s has no rows", file)
	}
	var rows []Row
	for part := range strings.SplitSeq(strings.TrimSpace(table), "\n\n# ") {
		name, rest, _ := strings.Cut(part, "\n")
		input, results, ok := strings.Cut(rest, "\n=>")
		if !ok {
			t.Fatalf("%s: the row %q has no line =>", file, name)
		}
		row := Row{Name: name, Input: input}
		for want := range strings.SplitSeq(results, "\n=>") {
			if want = strings.TrimSpace(want); want != "" {
				row.Wants = append(row.Wants, want)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
