package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// mostFindings bounds how many findings of one kind a check tells; the last one says how many
// more there are.
const mostFindings = 5

func crdSound(f *Facts, s Settings) ([]Finding, error) {
	if !s.ClusterTemplates {
		return nil, Nothing("not looked at: clusterTemplates=false, so the server reads no SidecarTemplates")
	}
	crd, err := f.CRD.get()
	if isNotFound(err) {
		return []Finding{failed(fmt.Sprintf("there is no CustomResourceDefinition sidecartemplates.%s: templates of the cluster cannot be written, and replicas that start know none of them", s.Prefix), s.restore()...)}, nil
	}
	if err != nil {
		return nil, err
	}
	look := "kubectl get crd " + crd.Name + " -o yaml"
	switch {
	case !crd.Established:
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s is not established: %s", crd.Name, crd.Why), look)}, nil
	case !slices.Contains(crd.Served, v1alpha1.Version):
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s serves %s, and this pillion reads %s", crd.Name, strings.Join(crd.Served, ", "), v1alpha1.Version), s.replace())}, nil
	case len(crd.Stored) > 1:
		return []Finding{warning(fmt.Sprintf("SidecarTemplates are stored in the versions %s: write each anew, and take the old version out of status.storedVersions, before it is dropped", strings.Join(crd.Stored, ", ")),
			"kubectl get "+crd.Name+" -l '"+s.Prefix+"/mirror!=true' -o yaml | kubectl replace -f -", "kubectl delete "+crd.Name+" -l "+s.Prefix+"/mirror=true",
			fmt.Sprintf(`kubectl patch crd %s --subresource=status --type=merge -p '{"status":{"storedVersions":["%s"]}}'`, crd.Name, v1alpha1.Version))}, nil
	}
	return nil, nil
}

func templatesGood(f *Facts, s Settings) ([]Finding, error) {
	set, err := f.Templates.get()
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, e := range set.All() {
		if e.Err == nil {
			continue
		}
		says, look := fmt.Sprintf("template %s has a mistake, so pods that want it are treated by its onError: %s", e.Name, oneLine(e.Err.Error())), []string{s.getTemplate(e.Name) + " > " + e.Name + ".yaml", "pillion lint " + e.Name + ".yaml" + s.prefixFlag()}
		found = append(found, failed(says, look...))
	}
	found = capped(found, "templates with a mistake")
	all, err := f.Replicas.get()
	if err != nil {
		return found, err
	}
	by, old := map[string]map[string]bool{}, map[string]bool{}
	for _, r := range all {
		if !r.Answers {
			continue
		}
		for _, name := range r.Broken {
			old[name] = true
		}
		for name, hash := range r.Templates {
			if by[name] == nil {
				by[name] = map[string]bool{}
			}
			by[name][hash] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if e, ok := set.Get(name); ok && e.Err != nil {
			continue // said already
		}
		found = append(found, warning(fmt.Sprintf("an older version of the template %s is in force: its newest manifest cannot be used, or it is gone and namespaces name it", name), s.getTemplate(name), s.logs()))
	}
	var differing []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if len(by[name]) > 1 {
			differing = append(differing, name)
		}
	}
	if len(differing) > 0 {
		found = append(found, warning(fmt.Sprintf("replicas apply different versions of %s; within a second of a change that is as it should be", some(differing)), s.command("status"), s.logs()))
	}
	return found, nil
}

// floorsCurrent says of each required template whether it has an admission policy. It need not:
// lacking one is no fault.
func floorsCurrent(f *Facts, s Settings) ([]Finding, error) {
	floors, err := f.Floors.get()
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, floor := range floors {
		found = append(found, floor.judge(s))
	}
	return found, nil
}

func (f Floor) judge(s Settings) Finding {
	renew := []string{s.policyCommand(f.Template) + " | kubectl apply -f -"}
	if f.There && !f.Current { // apply leaves items of lists that somebody added
		renew = append(renew, s.policyCommand(f.Template)+" | kubectl replace -f -")
	}
	switch {
	case f.ByHelm:
		renew = s.renew()
	case f.OfChart && !f.There && s.Release != "": // Helm takes over no object that it did not make
		renew = []string{fmt.Sprintf("helm -n %s upgrade %s CHART --reset-then-reuse-values --set required.policy=true", s.Namespace, s.Release)}
	}
	switch {
	case f.There && f.Impossible != "":
		return failed(fmt.Sprintf("API servers refuse pods by the admission policy %s, and there should be none: %s", f.Policy, f.Impossible),
			"kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found "+f.Policy)
	case f.Impossible != "":
		return fine(fmt.Sprintf("the required template %s has no admission policy, and can have none: %s. Where Pillion is not called, pods are created without its sidecars", f.Template, f.Impossible))
	case !f.There:
		return Finding{Result: OK, Says: fmt.Sprintf("the required template %s has no admission policy: where Pillion is not called, pods are created without its sidecars", f.Template), Remedy: renew}
	case !f.Current:
		return failed(fmt.Sprintf("the admission policy %s is not as the template %s is now: API servers may refuse pods that Pillion injects, and let others pass", f.Policy, f.Template), renew...)
	case !f.Bound:
		return warning(fmt.Sprintf("no binding has the admission policy %s hold all pods to the template %s: where Pillion is not called, pods may be created without its sidecars", f.Policy, f.Template), renew...)
	}
	return fine(fmt.Sprintf("API servers hold pods to the required template %s by the admission policy %s, whether or not they can call Pillion", f.Template, f.Policy))
}

// policyCommand prints the admission policy of a template.
func (s Settings) policyCommand(template string) string {
	command := "pillion policy " + template + " --cluster"
	if s.Namespace != defaultNamespace {
		command += " --pillion-namespace " + s.Namespace
	}
	return command + s.prefixFlag()
}

// capped leaves out findings beyond the most, and says how many.
func capped(found []Finding, what string) []Finding {
	if more := len(found) - mostFindings; more > 0 {
		worst := found[0].Result
		return append(found[:mostFindings:mostFindings], Finding{Result: worst, Says: fmt.Sprintf("and %d more %s", more, what)})
	}
	return found
}

func namesKnown(f *Facts, s Settings) ([]Finding, error) {
	set, namespaces, err := f.asked()
	if err != nil {
		return nil, err
	}
	var known []string
	for _, e := range set.All() {
		known = append(known, e.Name)
	}
	var found []Finding
	for _, ns := range namespaces {
		value, there := ns.Annotations[s.inject()]
		if !s.usage().Counts(ns.Namespace) {
			continue
		}
		ask, err := policy.ParseAsk(value, there, policy.Namespace)
		if err != nil {
			found = append(found, failed(fmt.Sprintf("the annotation %s of namespace %s is %q, so its pods are refused: %v", s.inject(), ns.Name, value, err),
				fmt.Sprintf("kubectl annotate namespace %s %s=TEMPLATE --overwrite", ns.Name, s.inject())))
			continue
		}
		found = append(found, unknownNames(s, set, ns, ask, known)...)
	}
	return capped(found, "namespaces with such names"), nil
}

// unknownNames returns the names in a namespace's annotation that are no template's.
func unknownNames(s Settings, set *templates.Set, ns kept.Namespace, ask policy.Ask, known []string) []Finding {
	var unknown, better []string
	for _, name := range ask.Names {
		if _, ok := set.Place(name); ok {
			better = append(better, name)
			continue
		}
		unknown = append(unknown, name)
		if near, ok := nearest.Name(name, known); ok && !slices.Contains(ask.Names, near) {
			better = append(better, near)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	command := fmt.Sprintf("kubectl annotate namespace %s %s=%s --overwrite", ns.Name, s.inject(), strings.Join(better, ","))
	if len(better) == 0 {
		command = fmt.Sprintf("kubectl annotate namespace %s %s=TEMPLATE --overwrite", ns.Name, s.inject())
	}
	return []Finding{failed(fmt.Sprintf("namespace %s names %s, and there is no such template, so its pods are refused%s", ns.Name, some(unknown), nearest.Hint(unknown[0], known)), command)}
}
