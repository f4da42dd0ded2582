package required

import (
	"fmt"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// The texts of differences. The path of the difference is the subject of each.
const (
	isMissing      = "is missing"
	isOther        = "is %s; must be %s"
	otherImage     = isOther + ", or an image that the template's spec.verify.images allows"
	otherResources = isOther + " (if a LimitRange or another webhook sets it, set it in the template, or allow it with spec.verify.allow.resources)"
	isRemoved      = "is present, but the template removes it"
	isNotRendered  = "is present, but the template does not render it"
	isNotSet       = "is %s, but the template does not set it"
	hasNoName      = "has an item without a name: %s"
	hasOwnName     = "has a name that the template uses for other pods; use another name"

	mustBeFirst        = "must come first, before %s"
	mustComeBefore     = "must come before %s"
	mustComeAfter      = "must come after %s"
	mustComeBeforeUser = "must come before %s, which refers to it, with no other value in front"

	mountsVolume  = "mounts the volume %s, which is the template's; mount another volume (" + mountRemedy + ")"
	hidesMount    = "is above %s, and would hide the template's mount; mount it elsewhere"
	hidesPart     = "is below %s, and would hide a part of the template's mount; mount it elsewhere (" + mountRemedy + ")"
	hiddenByMount = "is hidden by a mount at %q; mount that one elsewhere"
	mountRemedy   = "spec.verify.allow.volumeMounts of the template can allow the path"
)

// String returns the difference as a part of a sentence.
func (d Difference) String() string { return d.Path.Readable() + " " + d.Text }

func shown(v any) string {
	if v == nil {
		return "absent"
	}
	return podschema.Show(v)
}

// conflictText describes a conflict of the merge.
func conflictText(c *merge.Conflict) string {
	text := isRemoved
	if c.Wants != nil {
		text = fmt.Sprintf(isOther, shown(c.Stands), podschema.Show(c.Wants))
	}
	if c.Hint != "" {
		text += " (" + c.Hint + ")"
	}
	if c.Other != "" {
		text += ", and template " + c.Other + " sets it so"
	}
	return text
}

// nameOf returns the name of a list's item for a sentence.
func nameOf(item any) string {
	name, _ := podschema.ObjectOf(item)["name"].(string)
	if name == "" {
		return "an item without a name"
	}
	return podschema.Clip(name)
}
