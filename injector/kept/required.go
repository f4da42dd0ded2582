package kept

import "github.com/pillion-dev/pillion/templates"

// Required returns the label that has API servers call the webhook that verifies final
// pods: "true" where a required template selects the namespace. Nobody can set it to
// anything else.
func Required(prefix string) Label {
	return Label{
		Key: templates.RequiredLabel(prefix),
		Wanted: func(set *templates.Set) func(Namespace) string {
			return func(ns Namespace) string {
				if set.VerifiedIn(ns.Namespace) {
					return "true"
				}
				return ""
			}
		},
		InWrite: func(_, _, wanted string) string { return wanted },
	}
}
