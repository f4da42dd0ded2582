package check

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pillion-dev/pillion/templates/show"
)

// exceptionsLast says of each exception of a required template what remains of its time. One that has
// ended does no harm: new pods get the template.
func exceptionsLast(f *Facts, s Settings) []Finding {
	set := f.Templates.Value
	var inForce, ended []Finding
	for _, entry := range set.All() {
		for _, e := range entry.Exceptions() {
			what := fmt.Sprintf("the exception %s of the required template %s", e.Name, entry.Name)
			until := e.Until.UTC().Format(time.RFC3339)
			if e.Ended(f.Now) {
				ended = append(ended, warning(fmt.Sprintf("%s ended at %s, %s ago: new pods get the template. Take it out of the template, or set a later until", what, until, duration.HumanDuration(f.Now.Sub(e.Until))), s.getTemplate(entry.Name)))
				continue
			}
			inForce = append(inForce, fine(fmt.Sprintf("%s lets pods go without it for another %s, until %s: %s", what, duration.HumanDuration(e.Until.Sub(f.Now)), until, show.Plain(e.Reason))))
		}
	}
	return append(capped(ended, "exceptions that have ended"), capped(inForce, "exceptions in force")...)
}
