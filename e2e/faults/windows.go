package faults

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The columns of the table in docs/concepts/faults.md that this package reads.
const (
	// NameColumn has the names of the faults of this package.
	NameColumn    = "fault"
	refusedColumn = "refused for"
	bareColumn    = "bare for"
)

// ReadWindows reads docs/concepts/faults.md: the rows of every table that has a column
// of that name, by what stands in it, and the two of windows. A cell of these is "never", or
// seconds such as "15 s", with or without words after it.
func ReadWindows(path, name string) (map[string]Window, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	windows, err := parseWindows(string(text), name)
	if err != nil {
		return nil, fmt.Errorf("reading the windows of %s: %w", path, err)
	}
	return windows, nil
}

func parseWindows(text, nameColumn string) (map[string]Window, error) {
	windows := map[string]Window{}
	var columns map[string]int // of the table that the line is in, nil outside of one
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			columns = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == nil {
			columns = map[string]int{}
			for i, c := range cells {
				columns[c] = i
			}
			continue
		}
		name, known := column(cells, columns, nameColumn)
		refused, hasRefused := column(cells, columns, refusedColumn)
		bare, hasBare := column(cells, columns, bareColumn)
		if !known || !hasRefused || !hasBare || strings.HasPrefix(name, "-") {
			continue
		}
		name = strings.Trim(name, "`")
		if _, twice := windows[name]; twice {
			return nil, fmt.Errorf("%s has two rows", name)
		}
		var w Window
		var err error
		if w.Refused, err = parseWindow(refused); err == nil {
			w.Bare, err = parseWindow(bare)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		windows[name] = w
	}
	return windows, nil
}

func column(cells []string, columns map[string]int, name string) (string, bool) {
	i, ok := columns[name]
	if !ok || i >= len(cells) {
		return "", false
	}
	return cells[i], true
}

func parseWindow(cell string) (time.Duration, error) {
	if cell == "never" {
		return -1, nil
	}
	var seconds float64
	var unit string
	if n, _ := fmt.Sscan(cell, &seconds, &unit); n != 2 || strings.Trim(unit, ",;") != "s" || seconds < 0 {
		return 0, fmt.Errorf("%q is no window: want never, or seconds such as 15 s", cell)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
