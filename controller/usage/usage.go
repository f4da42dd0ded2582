package usage

import (
	"iter"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
)

// mostUnknown bounds how many names that are no template's are told apart: anybody who may
// annotate a namespace can think of names.
const mostUnknown = 1000

// Rules say which namespaces count.
type Rules struct {
	// Prefix is that of annotations and labels. Default: [templates.DefaultPrefix].
	Prefix string
	// Excluded are the namespaces that Pillion keeps out of.
	Excluded []string
}

// Usage is what the namespaces use. It is not changed once it is made.
type Usage struct {
	// In has, for each template of the set, in how many namespaces it is in force: they name
	// it, ask for it by "true", or its match selects them. A suspended template is in force
	// nowhere.
	In map[string]int
	// Named has, for each template of the set that namespaces name, how many do.
	Named map[string]int
	// Unknown has the same for names that are no template's: at most a thousand names. A
	// namespace whose names had no place there is counted by Beyond.
	Unknown map[string]int
	Beyond  int
}

// Counts reports whether Pillion has to do with a namespace at all.
func (r Rules) Counts(ns templates.Namespace) bool {
	return !entries.Registration{Prefix: r.Prefix, Excluded: r.Excluded}.KeepsOut(ns)
}

// Asks returns what a namespace asks for. It is nothing where the annotation cannot be read,
// or the namespace does not count.
func (r Rules) Asks(ns templates.Namespace) policy.Ask {
	if !r.Counts(ns) {
		return policy.Ask{}
	}
	value, ok := ns.Annotations[templates.InjectKey(r.Prefix)]
	ask, err := policy.ParseAsk(value, ok, policy.Namespace)
	if err != nil {
		return policy.Ask{}
	}
	return ask
}

// Count goes over the namespaces once.
func (r Rules) Count(set *templates.Set, namespaces iter.Seq[templates.Namespace]) Usage {
	u := Usage{In: make(map[string]int, set.Len()), Named: map[string]int{}, Unknown: map[string]int{}}
	for place := range set.Len() {
		u.In[set.At(place).Name] = 0
	}
	inForce := map[int]bool{}
	for ns := range namespaces {
		if !r.Counts(ns) {
			continue
		}
		ask := r.Asks(ns)
		clear(inForce)
		u.ask(set, ns, ask, inForce)
		for _, place := range set.Selecting(ns.Labels) {
			if ask.Mode != policy.Out || set.At(place).Required() {
				inForce[place] = true
			}
		}
		for place := range inForce {
			if e := set.At(place); !e.Suspended() {
				u.In[e.Name]++
			}
		}
	}
	return u
}

// ask adds what a namespace asks for, and notes in inForce the places that it gets by that.
func (u *Usage) ask(set *templates.Set, ns templates.Namespace, ask policy.Ask, inForce map[int]bool) {
	available := func(place int) bool {
		t := set.At(place).Template
		return t == nil || t.AvailableTo(ns.Labels)
	}
	beyond := false
	for _, name := range ask.Names {
		place, ok := set.Place(name)
		_, own := set.In(ns.Name).Place(name)
		switch {
		case !ok && own: // it is the namespace's own, and nobody else's
		case !ok && (u.Unknown[name] > 0 || len(u.Unknown) < mostUnknown):
			u.Unknown[name]++
		case !ok:
			beyond = true
		default:
			u.Named[name]++
			inForce[place] = available(place)
		}
	}
	if beyond {
		u.Beyond++
	}
	if ask.Mode == policy.Default {
		for _, place := range set.Defaults() {
			inForce[place] = available(place)
		}
	}
	maps.DeleteFunc(inForce, func(_ int, in bool) bool { return !in })
}

// Naming returns, for each of some names, the namespaces that name it, in order. Names that
// no namespace names are left out.
func (r Rules) Naming(names []string, namespaces iter.Seq[templates.Namespace]) map[string][]string {
	naming := map[string][]string{}
	if len(names) == 0 {
		return naming
	}
	for ns := range namespaces {
		for _, name := range r.Asks(ns).Names {
			if slices.Contains(names, name) {
				naming[name] = append(naming[name], ns.Name)
			}
		}
	}
	for _, all := range naming {
		slices.Sort(all)
	}
	return naming
}
