package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/pillion-dev/pillion/injector/reason"
)

// verdict is what the rules say of one template.
type verdict struct {
	name string
	// place is the template's in the catalog, nowhere for one that does not exist.
	place int
	// wanted: an annotation asks for the template, or it matches or is required.
	wanted bool
	// asked: an annotation asks for it by name or by "true".
	asked    bool
	required bool
	// late: its match selects the namespace, and not the pod as it is.
	late bool
	// inVain: an annotation asks for it where no annotation counts.
	inVain bool
	// off is why the template alone is taken off, "" if it is not.
	off reason.Code
	// why is the rule that it is wanted or taken off by.
	why cause
	// exception is that of a required template by which the pod goes without it, "" for none, and
	// excepted its sentence.
	exception, excepted string
}

// nowhere is the place of a template that does not exist: after all others.
const nowhere = math.MaxInt

// cause is a rule by which a template is wanted or taken off.
type cause int

const (
	matches cause = iota
	ofNamespace
	byDefault
	ofPod
	added
	takenOff
	replaced
	requiredHere
)

// sentence says what the rule says of a template.
func (d *decider) sentence(f verdict) string {
	switch f.why {
	case matches:
		return "it matches this pod by its labels and namespace"
	case ofNamespace:
		return fmt.Sprintf("namespace %q asks for it", d.request.Namespace)
	case byDefault:
		return "it is injected by default"
	case ofPod:
		return "the pod asks for it"
	case added:
		return "the pod adds it"
	case takenOff:
		return fmt.Sprintf("the pod removes it with \"-%s\"", f.name)
	case replaced:
		return "the pod's own list does not name it"
	default:
		return "it is required here"
	}
}

// named returns the verdict of a name, which may be nobody's. It is good until the next one is
// looked up.
func (d *decider) named(name string) *verdict {
	place, ok := d.catalog.Place(name)
	if !ok {
		place = nowhere
	}
	return d.verdict(name, place)
}

func (d *decider) verdict(name string, place int) *verdict {
	if i, ok := d.index[name]; ok {
		return &d.verdicts[i]
	}
	if d.index == nil {
		d.index = map[string]int{}
	}
	d.index[name] = len(d.verdicts)
	d.verdicts = append(d.verdicts, verdict{name: name, place: place})
	return &d.verdicts[len(d.verdicts)-1]
}

// sort puts the verdicts into the catalog's order, and those of no template last, by name.
func (d *decider) sort() {
	slices.SortFunc(d.verdicts, func(a, b verdict) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.name, b.name)) })
	for i, f := range d.verdicts {
		d.index[f.name] = i
	}
}

// sortAll is sort. To explain, every template has a verdict.
func (d *decider) sortAll() {
	if d.request.Explain {
		for place := range d.catalog.Len() {
			d.verdict(d.catalog.At(place).Name, place)
		}
	}
	d.sort()
}
