package inspect

import (
	"errors"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// rightsNote returns a note with a text and an error. If a right is missing, the note names it and
// has the commands that grant it.
func rightsNote(says string, err error) explain.Note {
	if missing := missingRight(err); missing != nil {
		return explain.Note{Text: says + missing.Summary(), Remedy: missing.Commands()}
	}
	return explain.Note{Text: says + err.Error()}
}

// missingRight returns the right that the user lacks, or nil if the error has another cause.
func missingRight(err error) *rights.MissingError {
	var missing *rights.MissingError
	errors.As(rights.Explain(err), &missing)
	return missing
}

// subjectFlag returns the flag of kubectl create rolebinding for the user who lacks a right.
func subjectFlag(err error) string {
	if missing := missingRight(err); missing != nil {
		return rights.Subject(missing.User)
	}
	return rights.Subject("")
}
