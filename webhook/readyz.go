package webhook

import "strings"

// notReadyHeader is the first line of the answer of /readyz while something is missing.
const notReadyHeader = "not ready:\n"

// formatNotReady returns the answer of /readyz, with a line for each missing part.
func formatNotReady(missing error) string { return notReadyHeader + missing.Error() }

// ParseNotReady returns the missing parts in an answer of /readyz. It returns false if
// another program answered, such as an API server that proxies the request.
func ParseNotReady(body []byte) (missing string, ok bool) {
	lines, ok := strings.CutPrefix(string(body), notReadyHeader)
	return strings.TrimSpace(lines), ok
}
