package templates

import "github.com/pillion-dev/pillion/templates/manifest"

// Document is one manifest of a file: its text for [Compile], and its first line for
// [Options].
type Document = manifest.Document

// ParseFile returns the manifests of a file, as [manifest.Documents] does.
func ParseFile(data []byte) []Document { return manifest.Documents(data) }

// Place returns the path of a value in a manifest, as problems have it, and its line in the file. See
// [manifest.Place].
func Place(d Document, steps ...any) (at string, line int) { return manifest.Place(d, steps...) }
