package templates

import (
	"strconv"
)

// NamedAt returns the place of a manifest's name as SOURCE:LINE (see [Options]). An object of the cluster has
// no lines.
func NamedAt(d Document, source string) string {
	if isObject(source) {
		return source
	}
	_, line := Place(d, "metadata", "name")
	if line == 0 {
		return source
	}
	return source + ":" + strconv.Itoa(line)
}
