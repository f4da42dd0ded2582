package image

import "regexp"

// reference is the grammar of references to container images as the OCI
// distribution specification and container runtimes have it: an optional
// registry with port, path components of lower case, a tag, a digest.
var reference = regexp.MustCompile(`\A` +
	`(?:` + registryName + `(?::[0-9]{1,5})?/)?` +
	pathComponent + `(?:/` + pathComponent + `)*` +
	`(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?` +
	`(?:@[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,128})?` +
	`\z`)

const (
	registryLabel = `[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?`
	registryName  = `(?:` + registryLabel + `(?:\.` + registryLabel + `)*|\[[0-9a-fA-F:]+\])`
	pathComponent = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	// maxLength is a bound, not the specification's: names have 255
	// characters at most, tags 128, digests of sha512 135.
	maxLength = 520
)

// IsReference reports whether s is a reference to a container image.
func IsReference(s string) bool { return len(s) <= maxLength && reference.MatchString(s) }
