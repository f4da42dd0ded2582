package main

import (
	"fmt"
	"slices"

	"github.com/google/licensecheck"
)

// allowed are the kinds, by their SPDX identifiers, that may be linked into a program under
// Apache-2.0 and given away with their texts.
var allowed = []string{"Apache-2.0", "MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC", "MPL-2.0", "Unlicense", "CC0-1.0"}

// known is how much of a text must be of kinds that are known, in percent. The rest are
// copyright lines, and not a further licence.
const known = 70

// kindsOf returns the kinds of licence that a text holds. It is an error if there is none
// that is allowed, or another one.
func kindsOf(text []byte) ([]string, error) {
	var kinds []string
	found := licensecheck.Scan(text)
	for _, m := range found.Match {
		if !slices.Contains(allowed, m.ID) {
			return nil, fmt.Errorf("its licence is not allowed: %s", m.ID)
		}
		kinds = append(kinds, m.ID)
	}
	if len(kinds) == 0 || found.Percent < known {
		return nil, fmt.Errorf("%.0f %% of its licence are of no kind that is known to be allowed", 100-found.Percent)
	}
	return kinds, nil
}
