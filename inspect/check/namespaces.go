package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

func labelsThere(f *Facts, s Settings) []Finding {
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	lacking := map[string][]string{}
	var excluded []string
	rules, proven := s.Labels(), f.proven()
	var open []string
	for _, ns := range namespaces {
		if _, asks := ns.Annotations[s.inject()]; asks && slices.Contains(s.Excluded, ns.Name) {
			excluded = append(excluded, ns.Name)
		}
		for _, change := range rules.Changes(set, proven, ns) {
			switch {
			case change.From == "":
				lacking[change.Key] = append(lacking[change.Key], ns.Name)
			case change.Value == templates.InjectionEnforced && len(ns.Forged) == 0:
				open = append(open, ns.Name)
			}
		}
	}
	var found []Finding
	for _, l := range []struct{ label, says string }{
		{templates.InjectionLabel(s.Prefix), "%s ask for sidecars and lack the label %s, so API servers do not call Pillion for their pods. Pillion sets it within a second if it runs and may patch namespaces"},
		{templates.RequiredLabel(s.Prefix), "%s are selected by a required template and lack the label %s, so final pods are not verified there"},
	} {
		if names := lacking[l.label]; len(names) > 0 {
			found = append(found, failed(fmt.Sprintf(l.says, namespacesNamed(names), l.label), s.logs(), "kubectl auth can-i patch namespaces --as="+s.Account))
		}
	}
	if len(open) > 0 {
		found = append(found, warning(fmt.Sprintf("%s are not enforced although Pillion has proven itself: while it is down, their pods come without sidecars. Pillion changes the label %s within a second if the API server takes the write", namespacesNamed(open), templates.InjectionLabel(s.Prefix)),
			fmt.Sprintf("kubectl get events -n %s --field-selector reason=%s", open[0], reason.LabelNotWritten), s.logs()))
	}
	for _, name := range excluded {
		found = append(found, warning(fmt.Sprintf("namespace %s asks for sidecars, but Pillion excludes it (excludedNamespaces)", name), fmt.Sprintf("kubectl annotate namespace %s %s-", name, s.inject())))
	}
	return found
}

// proven reports whether a replica has proven that pods come back injected, so that namespaces
// are enforced.
func (f *Facts) proven() bool {
	return slices.ContainsFunc(f.Replicas.Value, func(r state.Replica) bool { return r.EnforcementProven != nil && *r.EnforcementProven })
}

// namespacesNamed is "namespace a" or "namespaces a, b and 3 more", as a subject in the plural.
func namespacesNamed(names []string) string {
	slices.Sort(names)
	return fmt.Sprintf("these namespaces (%s)", show.Some(names, mostNamed))
}

func labelsByHand(f *Facts, s Settings) []Finding {
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	key := templates.InjectionLabel(s.Prefix)
	proven := f.proven()
	var found []Finding
	for _, ns := range namespaces {
		for _, forged := range ns.Forged {
			found = append(found, failed(fmt.Sprintf("namespace %s has the label %s from somebody who wrote it as the field manager %s, which is Pillion's name, so Pillion cannot change it", ns.Name, forged, labels.FieldManager(s.Prefix)),
				fmt.Sprintf("kubectl label namespace %s %s-", ns.Name, forged)))
		}
		injection, there := ns.Labels[key]
		value, present := ns.Annotations[s.inject()]
		ask, err := policy.ParseAsk(value, present, policy.Namespace)
		asks := err == nil && (ask.Mode == policy.Default || len(ask.Names) > 0)
		takeOff := fmt.Sprintf("kubectl label namespace %s %s-", ns.Name, key)
		switch {
		case !there || slices.Contains(s.Excluded, ns.Name):
		case !slices.Contains([]string{templates.InjectionEnabled, templates.InjectionEnforced, templates.InjectionDisabled}, injection):
			found = append(found, warning(fmt.Sprintf("namespace %s has the label %s=%s, which is not recognised; allowed are enabled, enforced and disabled", ns.Name, key, injection), takeOff))
		case injection == templates.InjectionDisabled && asks:
			found = append(found, warning(fmt.Sprintf("namespace %s asks for sidecars (%s: %q), and its label %s=disabled keeps Pillion away: no pod of it is injected", ns.Name, s.inject(), value, key), takeOff))
		case injection != templates.InjectionDisabled && ns.Name != s.ProofNamespace && slices.Contains(ns.ByHand, key) && labels.AskedBy(set, ns.Namespace, s.Prefix) == labels.Nothing:
			found = append(found, warning(fmt.Sprintf("namespace %s has the label %s=%s by hand, which asks for no sidecar, and nothing else does: only pods that ask themselves get one. To ask for all pods, name a template, and leave the label to Pillion", ns.Name, key, injection),
				fmt.Sprintf("kubectl annotate namespace %s %s=TEMPLATE && %s", ns.Name, s.inject(), takeOff)))
		case injection == templates.InjectionEnabled && proven && slices.Contains(ns.ByHand, key) && s.Enforcement.Includes(labels.AskedBy(set, ns.Namespace, s.Prefix)):
			found = append(found, warning(fmt.Sprintf("namespace %s has the label %s=enabled by hand, so Pillion never enforces there: while it is down, pods come without their sidecars", ns.Name, key), takeOff))
		}
	}
	return capped(found, "namespaces with such labels")
}

// Depends returns the value of the label by which the pods of a namespace depend on Pillion, or "".
func (s Settings) Depends(ns labels.Namespace) string {
	call := s.Registration().Call(ns.Namespace, nil)
	switch {
	case ns.Name == s.ProofNamespace || !call.Called():
		return ""
	case call == entries.CalledByLabel:
		return ns.Labels[templates.InjectionLabel(s.Prefix)]
	}
	return templates.InjectionEnabled
}

// dependence says what depends on Pillion, and by which templates alone.
func dependence(f *Facts, s Settings) []Finding {
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	counts := f.Pods.Value
	depending, pods := map[string][]string{}, map[string]int{}
	by := map[string][]string{} // template: the namespaces that do not ask
	for _, ns := range namespaces {
		value := s.Depends(ns)
		if value == "" {
			continue
		}
		depending[value] = append(depending[value], ns.Name)
		pods[value] += counts[ns.Name]
		if asker := labels.AskedBy(set, ns.Namespace, s.Prefix); asker == labels.OtherMatch || asker == labels.RequiredMatch {
			for _, template := range inForce(s.Usage(), set, ns) {
				by[template] = append(by[template], ns.Name)
			}
		}
	}
	var found []Finding
	for _, c := range []struct{ value, then string }{{templates.InjectionEnforced, "refused"}, {templates.InjectionEnabled, "created without their sidecars"}} {
		names := depending[c.value]
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		found = append(found, fine(fmt.Sprintf("%s: %s (namespaces: %d, pods: %d). While Pillion does not answer, new pods there are %s", c.value, show.Some(names, mostNamed), len(names), pods[c.value], c.then)))
	}
	var selecting []Finding
	for _, template := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[template])
		selecting = append(selecting, fine(fmt.Sprintf("the match of template %s selects namespaces that did not ask for sidecars: %s (namespaces: %d)", template, show.Some(by[template], mostNamed), len(by[template]))))
	}
	found = append(found, capped(selecting, "templates whose match selects such namespaces")...)
	if len(found) == 0 {
		found = append(found, fine("no namespace depends on Pillion"))
	}
	return found
}
