package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
	"github.com/pillion-dev/pillion/webhook/state"
)

// namespaceLabels compares the labels of namespaces with their annotations and with the templates.
func namespaceLabels(_ context.Context, in *installation) ([]Finding, error) {
	set, err := in.templates()
	if err != nil {
		return nil, err
	}
	namespaces, err := in.namespaces()
	if err != nil {
		return nil, err
	}
	states, err := in.replicas()
	if err != nil {
		return nil, err
	}
	proven := slices.ContainsFunc(states, func(r state.Replica) bool { return r.EnforcementProven != nil && *r.EnforcementProven })
	found := in.missingLabels(set, namespaces, proven)
	var byHand []Finding
	for _, ns := range namespaces {
		byHand = append(byHand, in.findContradictions(set, ns, proven)...)
	}
	return append(found, limit(byHand, "namespaces with such labels")...), nil
}

// missingLabels finds the namespaces without a label that Pillion would set.
func (in *installation) missingLabels(set *templates.Set, namespaces []labels.Namespace, proven bool) (found []Finding) {
	lacking := map[string][]string{}
	var notEnforced []string
	for _, ns := range namespaces {
		for _, change := range in.release.Labels().Changes(set, proven, ns) {
			switch {
			case change.From == "":
				lacking[change.Key] = append(lacking[change.Key], ns.Name)
			case change.Value == v1alpha1.InjectionEnforced && len(ns.Forged) == 0:
				notEnforced = append(notEnforced, ns.Name)
			}
		}
	}
	canPatch := fmt.Sprintf("kubectl auth can-i patch namespaces --as=system:serviceaccount:%s:%s", in.release.Server.Namespace, in.release.Server.ServiceAccount)
	for _, key := range []string{v1alpha1.InjectionLabel, v1alpha1.RequiredLabel} {
		if names := lacking[key]; len(names) > 0 {
			found = append(found, failed(fmt.Sprintf("these namespaces (%s) lack the label %s. Pillion sets it within a second if it runs and may patch namespaces", show.Some(names, maxNames), key), canPatch))
		}
	}
	if len(notEnforced) > 0 {
		found = append(found, warning(fmt.Sprintf("these namespaces (%s) are not enforced although Pillion has proven itself: while it is down, their pods come without sidecars. Pillion changes the label within a second if the API server takes the write", show.Some(notEnforced, maxNames)), in.logs()))
	}
	return found
}

// findContradictions finds the labels of a namespace that contradict its annotation.
func (in *installation) findContradictions(set *templates.Set, ns labels.Namespace, proven bool) (found []Finding) {
	key, inject := v1alpha1.InjectionLabel, v1alpha1.InjectKey
	for _, forged := range ns.Forged {
		found = append(found, failed(fmt.Sprintf("namespace %s has the label %s from somebody who wrote it as the field manager %s, which is Pillion's name, so Pillion cannot change it", ns.Name, forged, labels.FieldManager),
			fmt.Sprintf("kubectl label namespace %s %s-", ns.Name, forged)))
	}
	injection, there := ns.Labels[key]
	value, present := ns.Annotations[inject]
	ask, err := policy.ParseAnnotation(value, present, policy.Namespace)
	asks := err == nil && (ask.Mode == policy.Default || len(ask.Names) > 0)
	byHand := slices.Contains(ns.ByHand, key)
	takeOff := fmt.Sprintf("kubectl label namespace %s %s-", ns.Name, key)
	add := func(remedy, format string, args ...any) {
		found = append(found, warning(fmt.Sprintf(format, args...), remedy))
	}
	switch {
	case slices.Contains(in.release.Namespaces.Excluded, ns.Name):
		if present {
			add(fmt.Sprintf("kubectl annotate namespace %s %s-", ns.Name, inject), "namespace %s asks for sidecars, but Pillion excludes it (excludedNamespaces)", ns.Name)
		}
	case !there:
	case !slices.Contains([]string{v1alpha1.InjectionEnabled, v1alpha1.InjectionEnforced, v1alpha1.InjectionDisabled}, injection):
		add(takeOff, "namespace %s has the label %s=%s, which is not recognised; allowed are enabled, enforced and disabled", ns.Name, key, injection)
	case injection == v1alpha1.InjectionDisabled && asks:
		add(takeOff, "namespace %s asks for sidecars (%s: %q), and its label %s=disabled keeps Pillion away: no pod of it is injected", ns.Name, inject, value, key)
	case injection != v1alpha1.InjectionDisabled && ns.Labels[v1alpha1.ProofLabel] == "" && byHand && labels.FindRequester(set, ns.Namespace) == labels.Nothing:
		add(fmt.Sprintf("kubectl annotate namespace %s %s=TEMPLATE && %s", ns.Name, inject, takeOff), "namespace %s has the label %s=%s by hand, which requests no sidecar, and nothing else in the namespace does. To request one for all pods, name a template in the annotation and let Pillion set the label", ns.Name, key, injection)
	case injection == v1alpha1.InjectionEnabled && asks && proven && byHand:
		add(takeOff, "namespace %s has the label %s=enabled by hand, so Pillion never enforces there: while it is down, pods come without their sidecars", ns.Name, key)
	}
	return found
}
