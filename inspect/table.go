package inspect

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// WriteTable writes a heading and rows below it. Tabs separate their columns.
func WriteTable(out *strings.Builder, heading string, rows []string) {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, heading)
	for _, row := range rows {
		fmt.Fprintln(table, row)
	}
	_ = table.Flush() // into memory
}
