package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// gap is a fact that the user lacks the right to read.
type gap struct {
	fact  string
	right *rights.MissingError
}

// addGap adds a fact that the user cannot read because of the error. A right that is already in the list is not added
// again.
func (l *Live) addGap(fact string, err error) {
	missing := missingRight(err)
	switch {
	case missing == nil:
		l.notes = append(l.notes, explain.Note{Text: fmt.Sprintf("not known: %s: %v", fact, err)})
	case !slices.ContainsFunc(l.gaps, func(g gap) bool { return g.right.Right == missing.Right }):
		l.gaps = append(l.gaps, gap{fact, missing})
	}
}

// Notes returns the notes about the settings and the objects of the cluster. The last note names all rights that the user
// lacks, each with the fact that it shows, and has the commands that grant them.
func (l *Live) Notes() []explain.Note {
	all := slices.Clone(l.notes)
	if len(l.gaps) == 0 {
		return all
	}
	var lacks, commands []string
	for _, g := range l.gaps {
		lacks = append(lacks, fmt.Sprintf("to %s (%s)", g.right.Right, g.fact))
		commands = append(commands, g.right.Commands()...)
	}
	return append(all, explain.Note{Text: "you lack the right " + strings.Join(lacks, ", ") + ". An admin can grant it:", Remedy: commands})
}

// missingRight returns the right that the user lacks, or nil if the error has another cause.
func missingRight(err error) *rights.MissingError {
	var missing *rights.MissingError
	errors.As(rights.Explain(err), &missing)
	return missing
}
