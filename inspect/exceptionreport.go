package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// exceptionReport is an exception of a required template.
type exceptionReport struct {
	Template string    `json:"template"`
	Name     string    `json:"name"`
	Until    time.Time `json:"until"`
	Ended    bool      `json:"ended"`
	Reason   string    `json:"reason"`
	// Pods counts the pods of the target that run without the template because of the exception.
	Pods int `json:"pods"`

	remains string
}

// addExceptions counts a pod that runs without a required template because of an exception.
func (t *tally) addExceptions(s drift.Comparison) {
	for _, template := range s.Templates {
		if template.Exception != "" && template.State == drift.NotAsked {
			t.excepted[[2]string{template.Name, template.Exception}]++
		}
	}
}

// exceptions returns the exceptions of the templates, sorted by their ends. For the target of a
// namespace, it returns only exceptions with pods there.
func (t *tally) exceptions(set *templates.Set, now time.Time) []exceptionReport {
	var all []exceptionReport
	for _, entry := range set.All() {
		for _, e := range entry.Exceptions() {
			pods := t.excepted[[2]string{entry.Name, e.Name}]
			if t.target.Template != "" && t.target.Template != entry.Name || t.target.Namespace != "" && pods == 0 {
				continue
			}
			r := exceptionReport{Template: entry.Name, Name: e.Name, Until: e.Until.UTC(), Ended: e.Ended(now), Reason: e.Reason, Pods: pods, remains: "none"}
			if !r.Ended {
				r.remains = duration.HumanDuration(e.Until.Sub(now))
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b exceptionReport) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Template, b.Template), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// writeExceptions writes the exceptions, if there are any.
func (r PodsReport) writeExceptions(out *strings.Builder) {
	var rows []string
	for _, e := range r.Exceptions {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", e.Name, e.Template, e.Until.Format(time.RFC3339), e.remains, e.Pods, cell(show.Plain(e.Reason))))
	}
	if len(rows) > 0 {
		WriteTable(out, "\nEXCEPTION\tOF TEMPLATE\tUNTIL\tREMAINS\tPODS\tREASON", rows)
	}
}
