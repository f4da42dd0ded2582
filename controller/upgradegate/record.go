package upgradegate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// The keys of the ConfigMap.
const (
	templatesKey = "templates" // names, one a line
	askedKey     = "asked"     // whether anybody serves: when, and by which replica
)

// recorded returns the templates in use of a ConfigMap, in order and each once.
func recorded(m *corev1.ConfigMap) []string {
	names := strings.Fields(m.Data[templatesKey])
	slices.Sort(names)
	return slices.Compact(names)
}

// usable reports whether a set has a version of a template that pods can get.
func usable(set *templates.Set, name string) bool {
	e, ok := set.Get(name)
	return ok && e.Template != nil
}

// lacking returns the names that a set has no usable version of.
func lacking(names []string, set *templates.Set) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return usable(set, name) })
}

// inUse returns the templates that a replica has, and namespaces name, in order.
func inUse(count usage.Count) []string {
	var names []string
	for name := range count.Named {
		if usable(count.Set, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// missing says which templates a replica lacks, and what to do about them.
type missing struct {
	set *templates.Set
	// naming has the namespaces that name each of them.
	naming map[string][]string
}

// Error implements error.
func (m missing) Error() string {
	const mostTemplates, mostNamespaces = 5, 2
	names := make([]string, 0, len(m.naming))
	for name := range m.naming {
		names = append(names, name)
	}
	slices.Sort(names)
	var listed []string
	for _, name := range names[:min(mostTemplates, len(names))] {
		who := m.naming[name]
		text := show.Some(who, mostNamespaces)
		if e, there := m.set.Get(name); there && e.Err != nil {
			text += "; its manifest cannot be used"
		}
		listed = append(listed, fmt.Sprintf("%s (%s)", name, text))
	}
	return fmt.Sprintf("templates named by namespaces are missing: %s. Old replicas that have them keep serving. Undo the upgrade (helm rollback, or helm upgrade --reset-then-reuse-values), or add them to the values library or templates, or as SidecarTemplates. "+
		"To go on without them, set allowMissingTemplates={%s}; then pods of these namespaces are refused", show.SomeOf(listed, mostTemplates, len(names)), strings.Join(names[:min(mostTemplates, len(names))], ","))
}
