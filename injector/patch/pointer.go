package patch

import (
	"fmt"
	"strconv"
	"strings"
)

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// pointerOf escapes a path as RFC 6901 defines it.
func pointerOf(path []string) string {
	var b strings.Builder
	for _, segment := range path {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(segment))
	}
	return b.String()
}

// segments reads a pointer that pointerOf could have written.
func segments(pointer string) []string {
	path := strings.Split(pointer, "/")[1:]
	for i, segment := range path {
		if strings.Contains(segment, "~") {
			path[i] = unescaper.Replace(segment)
		}
	}
	return path
}

// position parses an array index of RFC 6901: digits, no leading zero, no sign. Limit is the first index out of
// bounds.
func position(segment string, limit int) (int, error) {
	i, err := strconv.Atoi(segment)
	if err != nil || strconv.Itoa(i) != segment || i < 0 {
		return 0, fmt.Errorf("%q is not an array index", segment)
	}
	if i >= limit {
		return 0, fmt.Errorf("index %d is out of bounds, allowed are 0 to %d", i, limit-1)
	}
	return i, nil
}
