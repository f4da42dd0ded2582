package check

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// kept returns the judgement of the labels that namespaces are to have.
func (s Settings) labels(set *templates.Set, proven bool) kept.Judgement {
	list := []kept.Label{kept.Injection(s.Prefix, func() kept.Enforcement { return kept.Enforcement{Enforce: proven} })}
	if s.KeepRequired {
		list = append(list, kept.Required(s.Prefix))
	}
	return kept.New(s.Excluded, list...).By(set)
}

func labelsThere(f *Facts, s Settings) ([]Finding, error) {
	set, namespaces, err := f.asked()
	if err != nil {
		return nil, err
	}
	lacking := map[string][]string{}
	var excluded []string
	judgement := s.labels(set, f.proven())
	var open []string
	for _, ns := range namespaces {
		if _, asks := ns.Annotations[s.inject()]; asks && slices.Contains(s.Excluded, ns.Name) {
			excluded = append(excluded, ns.Name)
		}
		for _, change := range judgement.Differences(ns) {
			switch {
			case change.From == "":
				lacking[change.Key] = append(lacking[change.Key], ns.Name)
			case change.Value == templates.InjectionEnforced && len(ns.Forged) == 0:
				open = append(open, ns.Name)
			}
		}
	}
	var found []Finding
	if names := lacking[templates.InjectionLabel(s.Prefix)]; len(names) > 0 {
		found = append(found, failed(fmt.Sprintf("%s ask for sidecars and lack the label %s, so API servers do not call Pillion for their pods. Pillion sets it within a second if it runs and may patch namespaces", namespacesNamed(names), templates.InjectionLabel(s.Prefix)),
			s.logs(), fmt.Sprintf("kubectl auth can-i patch namespaces --as=%s", s.Account)))
	}
	if names := lacking[templates.RequiredLabel(s.Prefix)]; len(names) > 0 {
		found = append(found, failed(fmt.Sprintf("%s are selected by a required template and lack the label %s, so final pods are not verified there", namespacesNamed(names), templates.RequiredLabel(s.Prefix)),
			s.logs(), fmt.Sprintf("kubectl auth can-i patch namespaces --as=%s", s.Account)))
	}
	if len(open) > 0 {
		found = append(found, warning(fmt.Sprintf("%s are not enforced although Pillion has proven itself: while it is down, their pods come without sidecars. Pillion changes the label %s within a second if the API server takes the write", namespacesNamed(open), templates.InjectionLabel(s.Prefix)),
			fmt.Sprintf("kubectl get events -n %s --field-selector reason=%s", open[0], reason.LabelNotWritten), s.logs()))
	}
	for _, name := range excluded {
		found = append(found, warning(fmt.Sprintf("namespace %s asks for sidecars, and Pillion keeps out of it (excludedNamespaces)", name), fmt.Sprintf("kubectl annotate namespace %s %s-", name, s.inject())))
	}
	return found, nil
}

// proven reports whether a replica has proven that pods come back injected, so that namespaces
// are enforced.
func (f *Facts) proven() bool {
	return slices.ContainsFunc(f.Replicas.Value, func(r Replica) bool { return r.Proven != nil && *r.Proven })
}

// namespacesNamed is "namespace a" or "namespaces a, b and 3 more", as a subject in the plural.
func namespacesNamed(names []string) string {
	slices.Sort(names)
	return fmt.Sprintf("these namespaces (%s)", some(names))
}

func labelsByHand(f *Facts, s Settings) ([]Finding, error) {
	namespaces, err := f.Namespaces.get()
	if err != nil {
		return nil, err
	}
	key := templates.InjectionLabel(s.Prefix)
	proven := f.proven()
	var found []Finding
	for _, ns := range namespaces {
		for _, forged := range ns.Forged {
			found = append(found, failed(fmt.Sprintf("namespace %s has the label %s from somebody who wrote it as the field manager %s, which is Pillion's name, so Pillion cannot change it", ns.Name, forged, kept.FieldManager(s.Prefix)),
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
			found = append(found, warning(fmt.Sprintf("namespace %s has the label %s=%s, which means nothing; allowed are enabled, enforced and disabled", ns.Name, key, injection), takeOff))
		case injection == templates.InjectionDisabled && asks:
			found = append(found, warning(fmt.Sprintf("namespace %s asks for sidecars (%s: %q), and its label %s=disabled keeps Pillion away: no pod of it is injected", ns.Name, s.inject(), value, key), takeOff))
		case injection == templates.InjectionEnabled && asks && proven && slices.Contains(ns.ByHand, key):
			found = append(found, warning(fmt.Sprintf("namespace %s has the label %s=enabled by hand, so Pillion never enforces there: while it is down, pods come without their sidecars", ns.Name, key), takeOff))
		}
	}
	return capped(found, "namespaces with such labels"), nil
}
