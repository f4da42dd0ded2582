package inspect

import (
	"errors"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// lacking returns a note: what follows from an error, and which right is missing, with the
// commands that grant it. Of another error it has the text.
func lacking(says string, err error) explain.Note {
	if missing := missingRight(err); missing != nil {
		return explain.Note{Says: says + missing.Says(), Remedy: missing.Commands()}
	}
	return explain.Note{Says: says + err.Error()}
}

// missingRight returns which right the user lacks, nil if the error is about another thing.
func missingRight(err error) *rights.MissingError {
	var missing *rights.MissingError
	errors.As(rights.Named(err), &missing)
	return missing
}

// deniedTo returns the flag by which kubectl's create rolebinding names the user who lacks a
// right.
func deniedTo(err error) string {
	if missing := missingRight(err); missing != nil {
		return rights.Subject(missing.User)
	}
	return rights.Subject("")
}
