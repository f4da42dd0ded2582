package webhook

import "strings"

// notReadyHeader is the first line of the answer of /readyz while something is missing.
const notReadyHeader = "not ready:\n"

// notReadyBody returns the answer of /readyz, which says in lines what is missing.
func notReadyBody(missing error) string { return notReadyHeader + missing.Error() }

// MissingOf returns what a replica lacks, from its answer of /readyz. It reports false if
// another program answered, such as an API server in between.
func MissingOf(body []byte) (missing string, ok bool) {
	said, ok := strings.CutPrefix(string(body), notReadyHeader)
	return strings.TrimSpace(said), ok
}
