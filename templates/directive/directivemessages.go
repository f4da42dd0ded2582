package directive

import "strings"

// The messages about a directive, which is the subject of each.
const (
	unknown         = "is not a directive%s"
	onlyInTemplates = "is for templates; a rendered fragment has none"
	onlyKeyedItems  = "is only for items of lists whose items have names or keys"
	onlyTexts       = "is only for items of a container's env, and for the values of annotations"
	insideOneValue  = "cannot be used inside what the API treats as one value"
	unsetsInValue   = insideOneValue + "; write the whole value, with $patch: replace"

	singleValue  = "cannot be used for a single value; " + scalarForm
	otherField   = "is used for a single value, so the field %q is not allowed; " + scalarForm
	missingValue = "is used for a single value, which is missing; " + scalarForm
	scalarForm   = "write {$onConflict: KeepPod, value: V}, or for the value of an annotation {$append: \",\", value: TEXT}"

	wrongSeparator = "must be the text between the parts, such as \" \" or \",\": not empty, and without expressions"
	joinsSource    = "%ss text, so valueFrom is not allowed; use value"
	joinsNothing   = "needs value, the text to %s"
	joinsAndMore   = "cannot be combined with %s: joined text leaves the pod's text in place; use one of the two"

	wrongPosition  = "must be First, Last, {before: NAME} or {after: NAME}"
	wrongPolicy    = "must be one of " + Deny + ", " + KeepPod + ", " + Overwrite
	wrongPatch     = "must be " + patchDelete + " or " + patchReplace
	needsImage     = "replaces a container of the pod; give the item an image"
	wrongNames     = "must be a list of names of this object's fields"
	namesDirective = "names the directive %s; it must name fields"
	removesAndSets = "removes %s, which this object also sets; use one of the two"
)

func takesAway(path []string) string {
	place := strings.Join(path, ".")
	if place == "" {
		place = "the pod itself"
	}
	return "would remove what no template may remove: " + place
}
