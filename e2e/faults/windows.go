package faults

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// A window is how long pods may be refused, or created without their sidecars, after a fault has
// ended. Negative: never.
type window struct{ refused, bare time.Duration }

// windowRow is a row of the tables in docs/concepts/faults.md: the fault, "refused for", "bare for".
var windowRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| ([^|]*) \\| ([^|]*) \\|")

// readWindows reads docs/concepts/faults.md: the windows of each fault by its name.
func readWindows(checkout ground.Checkout) (map[string]window, error) {
	path := checkout.Path("docs", "concepts", "faults.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	windows, err := parseWindows(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the windows of %s: %w", path, err)
	}
	return windows, nil
}

func parseWindows(text string) (map[string]window, error) {
	windows := map[string]window{}
	for _, row := range windowRow.FindAllStringSubmatch(text, -1) {
		name := row[1]
		if _, twice := windows[name]; twice {
			return nil, fmt.Errorf("%s has two rows", name)
		}
		var times [2]time.Duration
		for i, cell := range row[2:] {
			var err error
			if times[i], err = parseWindow(cell); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		windows[name] = window{times[0], times[1]}
	}
	return windows, nil
}

var seconds = regexp.MustCompile(`^([0-9.]+) s(,.*)?$`)

// parseWindow reads a cell: "never", or seconds such as "15 s", with or without words after a comma.
func parseWindow(cell string) (time.Duration, error) {
	if cell == "never" {
		return never, nil
	}
	if match := seconds.FindStringSubmatch(cell); match != nil {
		n, err := strconv.ParseFloat(match[1], 64)
		return time.Duration(n * float64(time.Second)), err
	}
	return 0, fmt.Errorf("%q is no window: want never, or seconds such as 15 s", cell)
}
