package record

import "github.com/pillion-dev/pillion/templates/v1alpha1"

const (
	// The errors of a record. They complete "ignoring", a warning for the pod's author.
	inAnnotation = "annotation " + v1alpha1.StatusKey + ": %w"
	notText      = "it is %s; text is expected"
	tooLarge     = "it has %d bytes; at most %d are allowed"
	notJSON      = "decoding it: %w"
	noVersion    = "it has no version; this build reads version %s"
	otherVersion = "its version is %s; this build reads version %s"
	notTemplates = "its templates are %s; an object is expected"
	noHash       = "one of its templates has no name, or no hash"
	notSet       = "its set is %s; an object is expected"
	notEntry     = "its entry for %s is %s; an object is expected"
	noIndex      = "a removed item of %s has no index"
	wrongIndex   = "the index of a removed item of %s is %s; a whole number from 0 is expected"

	// changedSince is the warning about a value that Uninject leaves in the pod.
	changedSince = "%s: it was changed to %s after injection, so it stays"
)
