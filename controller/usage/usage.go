package usage

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

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
	u := Usage{In: make(map[string]int, len(set.Entries())), Named: map[string]int{}, Unknown: map[string]int{}}
	for _, e := range set.Entries() {
		u.In[e.Name] = 0
	}
	for ns := range namespaces {
		if !r.Counts(ns) {
			continue
		}
		ask := r.Asks(ns)
		u.addNames(set, ns.Name, ask.Names)
		for _, e := range set.Entries() {
			if inForceIn(e, ns, ask) {
				u.In[e.Name]++
			}
		}
	}
	return u
}

// addNames adds the names that a namespace names.
func (u *Usage) addNames(set *templates.Set, namespace string, names []string) {
	beyond := false
	for _, name := range names {
		_, ofCluster := set.Get(name)
		_, own := set.In(namespace).Get(name)
		switch {
		case ofCluster:
			u.Named[name]++
		case own: // the namespace's own template
		case u.Unknown[name] > 0 || len(u.Unknown) < mostUnknown:
			u.Unknown[name]++
		default:
			beyond = true
		}
	}
	if beyond {
		u.Beyond++
	}
}

// inForceIn reports whether a namespace that asks so gets a template, for some of its pods at least.
func inForceIn(e templates.Entry, ns templates.Namespace, ask policy.Ask) bool {
	if e.Suspended() {
		return false
	}
	if slices.Contains(ask.Names, e.Name) || ask.Mode == policy.Default && e.InjectByDefault() {
		if e.AvailableTo(ns.Labels) {
			return true
		}
	}
	selector, _, ok := e.Match()
	return ok && selector.Matches(labels.Set(ns.Labels)) && (ask.Mode != policy.Out || e.Required())
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
