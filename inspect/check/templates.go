package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// mostFindings bounds how many findings of one kind a check tells; the last one says how many
// more there are.
const mostFindings = 5

func crdSound(f *Facts, s Settings) []Finding {
	if !s.ClusterTemplates {
		return skipped("not looked at: clusterTemplates=false, so the server reads no SidecarTemplates")
	}
	found := crdIs(f.CRD, s, v1alpha1.Kind, fmt.Sprintf("there is no CustomResourceDefinition sidecartemplates.%s. Running replicas keep their templates%s, but replicas that start have none, so restart none. Restore the definition, then apply your SidecarTemplates again", s.Prefix, in(f.lost())), applyTemplates)
	if s.NamespacedTemplates {
		found = append(found, crdIs(f.OwnCRD, s, v1alpha1.NamespacedKind, fmt.Sprintf("there is no CustomResourceDefinition namespacedsidecartemplates.%s. Running replicas keep the templates of namespaces, but replicas that start have none, so restart none. Restore the definition, then have teams apply their NamespacedSidecarTemplates again", s.Prefix))...)
	}
	return found
}

// crdIs judges the definition of a kind of templates. Without it holds the sentence gone, and the
// commands then come after those that restore it.
func crdIs(known Known[CRD], s Settings, kind, gone string, then ...string) []Finding {
	crd := known.Value
	switch {
	case isNotFound(known.Err):
		return []Finding{failed(gone, append(s.restore(), then...)...)}
	case known.Err != nil:
		return []Finding{unread(known.Err)}
	}
	var served []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	established := cmp.Or(meta.FindStatusCondition(crd.Status.Conditions, "Established"), &metav1.Condition{})
	switch stored := crd.Status.StoredVersions; {
	case established.Status != metav1.ConditionTrue:
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s is not established: %s", crd.Name, established.Message), "kubectl get crd "+crd.Name+" -o yaml")}
	case !slices.Contains(served, v1alpha1.Version):
		return []Finding{failed(fmt.Sprintf("the CustomResourceDefinition %s serves %s, and this pillion reads %s", crd.Name, strings.Join(served, ", "), v1alpha1.Version), s.replace())}
	case len(stored) > 1:
		remedy := []string{"kubectl get " + crd.Name + " -A -l '" + s.Prefix + "/mirror!=true' -o yaml | kubectl replace -f -"}
		if kind == v1alpha1.Kind { // the other has no mirrors
			remedy = append(remedy, "kubectl delete "+crd.Name+" -l "+s.Prefix+"/mirror=true")
		}
		return []Finding{warning(fmt.Sprintf("%ss are stored in the versions %s: write each anew, and take the old version out of status.storedVersions, before it is dropped", kind, strings.Join(stored, ", ")),
			append(remedy, fmt.Sprintf(`kubectl patch crd %s --subresource=status --type=merge -p '{"status":{"storedVersions":["%s"]}}'`, crd.Name, v1alpha1.Version))...)}
	}
	return nil
}

// applyTemplates is the command that brings templates back, from where their author keeps them.
const applyTemplates = "kubectl apply -f SIDECARTEMPLATES"

// served are the templates that replicas report as in force, by name; nil if none answers. They
// decide about pods, whatever objects there are.
func (f *Facts) served() map[string]bool {
	if answering(f) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, r := range f.answering() {
		for name := range r.Templates {
			names[name] = true
		}
	}
	return names
}

// lost are the templates in force that are neither objects nor files any more.
func (f *Facts) lost() []string {
	if f.Templates.Err != nil {
		return nil
	}
	served := f.served()
	maps.DeleteFunc(served, func(name string, _ bool) bool { _, there := f.Templates.Value.Find(name); return there })
	return slices.Sorted(maps.Keys(served))
}

// in is a list of names in brackets, "" for none.
func in(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + show.Some(names, mostNamed) + ")"
}

func templatesGood(f *Facts, s Settings) []Finding {
	set := f.Templates.Value
	var found []Finding
	for _, e := range set.All() {
		if c, ok := set.Canary(e.Name); ok && c.Unusable != nil {
			found = append(found, failed(fmt.Sprintf("canary %s selects no pods: %s", e.Name, oneLine(c.Unusable.Error())), s.getTemplate(e.Name)))
			continue
		}
		if e.Err == nil {
			continue
		}
		says, look := fmt.Sprintf("template %s has a mistake, so pods that want it are treated by its onError: %s", e.Name, oneLine(e.Err.Error())), []string{s.getTemplate(e.Name) + " > " + e.Name + ".yaml", "pillion lint " + e.Name + ".yaml" + s.prefixFlag()}
		found = append(found, failed(says, look...))
	}
	found = capped(found, "templates with a mistake")
	if f.Replicas.Err != nil {
		return append(found, unread(f.Replicas.Err))
	}
	all := f.Replicas.Value
	lost := f.lost()
	if len(lost) > 0 {
		found = append(found, warning(fmt.Sprintf("the templates %s are in force, and their objects or files are gone: replicas that start do not have them, so restart none until they are back", show.Some(lost, mostNamed)), applyTemplates, s.logs()))
	}
	by, old := map[string]map[string]bool{}, map[string]bool{}
	for name := range f.served() {
		by[name] = map[string]bool{}
	}
	for _, r := range all {
		if !r.Answers {
			continue
		}
		for _, name := range r.Broken {
			old[name] = true
		}
		for name, hashes := range by {
			hash, there := r.Templates[name]
			hashes[fmt.Sprint(hash, there)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		c, _ := set.Canary(name)
		if e, ok := set.Get(name); ok && e.Err != nil || c.Unusable != nil || slices.Contains(lost, name) {
			continue // said already
		}
		found = append(found, warning(fmt.Sprintf("an older version of the template %s is in force: its newest manifest cannot be used", name), s.getTemplate(name), s.logs()))
	}
	var differing []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if len(by[name]) > 1 {
			differing = append(differing, name)
		}
	}
	if len(differing) > 0 {
		found = append(found, warning(fmt.Sprintf("replicas apply different versions of %s; within a second of a change that is as it should be", show.Some(differing, mostNamed)), s.command("pillion status"), s.logs()))
	}
	return found
}

// floorsCurrent says of each required template whether it has an admission policy. It need not:
// lacking one is no fault.
func floorsCurrent(f *Facts, s Settings) []Finding {
	floors := f.Floors.Value
	var found []Finding
	lost := f.lost()
	for _, floor := range floors {
		if slices.Contains(lost, floor.Template) {
			found = append(found, fine(fmt.Sprintf("the required template %s is in force, and its object is gone: leave the admission policy %s as it is until the template is back", floor.Template, floor.Policy)))
			continue
		}
		found = append(found, floor.judge(s))
	}
	return found
}

func (f Floor) judge(s Settings) Finding {
	renew := []string{s.policyCommand(f.Template) + " | kubectl apply -f -"}
	if f.There && !f.Current { // apply leaves items of lists that somebody added
		renew = append(renew, s.policyCommand(f.Template)+" | kubectl replace -f -")
	}
	switch {
	case f.ByHelm:
		renew = append(s.restore(), s.replace())
	case f.OfChart && !f.There && s.Release != "": // Helm takes over no object that it did not make
		renew = []string{fmt.Sprintf("helm -n %s upgrade %s CHART --reset-then-reuse-values --set required.policy=true", s.Namespace, s.Release)}
	}
	switch {
	case f.There && f.Gone:
		return failed(fmt.Sprintf("API servers refuse pods by the admission policy %s, but its template %s does not exist. Apply the template again, or delete the policy and its binding", f.Policy, f.Template), applyTemplates)
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
	command := s.command("pillion policy " + template + " --cluster")
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

// Named is a template that a namespace names.
type Named struct{ Namespace, Template string }

// Unknown returns the names in annotations of namespaces that are no template's: neither do replicas
// report it as in force, nor is there one that they will know soon.
func (f *Facts) Unknown(s Settings) []Named {
	if f.Templates.Err != nil || f.Namespaces.Err != nil {
		return nil
	}
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	served := f.served()
	var unknown []Named
	for _, ns := range namespaces {
		for _, name := range s.Usage().Asks(ns.Namespace).Names {
			_, canary := set.Canary(name)
			if _, there := set.In(ns.Name).Place(name); !there && (canary || !served[name]) {
				unknown = append(unknown, Named{ns.Name, name})
			}
		}
	}
	return unknown
}

func namesKnown(f *Facts, s Settings) []Finding {
	set, namespaces := f.Templates.Value, f.Namespaces.Value
	worn := f.Worn.Value
	known := map[string]bool{}
	maps.Copy(known, f.served())
	if len(known) == 0 && s.ClusterTemplates && isNotFound(f.CRD.Err) {
		return skipped("not looked at: no replica says which templates are in force")
	}
	for _, e := range set.All() {
		known[e.Name] = true
	}
	names := slices.Collect(maps.Keys(known))
	unknown := map[Named]bool{}
	for _, named := range f.Unknown(s) {
		unknown[named] = true
	}
	if len(unknown) > 0 && f.OwnUnread != nil {
		return []Finding{unread(f.OwnUnread)} // the names may be those of a namespace's own templates
	}
	var found []Finding
	for _, ns := range namespaces {
		value, there := ns.Annotations[s.inject()]
		if !s.Usage().Counts(ns.Namespace) {
			continue
		}
		ask, err := policy.ParseAsk(value, there, policy.Namespace)
		known, names := known, names
		if own := set.In(ns.Name); own != set {
			known = maps.Clone(known)
			for _, e := range own.All() {
				known[e.Name] = true
			}
			names = slices.Collect(maps.Keys(known))
		}
		if err != nil {
			found = append(found, failed(fmt.Sprintf("the annotation %s of namespace %s is %q, so its pods are refused: %v", s.inject(), ns.Name, value, err),
				s.annotate(ns.Name, meant(value, known))))
			continue
		}
		var wrong, instead, gone []string
		for _, name := range ask.Names {
			near, ok := nearest.Name(name, names)
			switch {
			case !unknown[Named{ns.Name, name}]:
				instead = append(instead, name)
				continue
			case slices.Contains(worn, Named{ns.Name, name}):
				gone = append(gone, name)
			case !ok:
				instead = append(instead, anyTemplate)
			case !slices.Contains(ask.Names, near):
				instead = append(instead, near)
			}
			wrong = append(wrong, name)
		}
		switch says := fmt.Sprintf("namespace %s names %s, which does not exist, so its pods are refused", ns.Name, show.Some(wrong, mostNamed)); {
		case len(wrong) == 0:
		case len(gone) > 0: // another name would take the sidecar from pods that are made anew
			found = append(found, failed(fmt.Sprintf("%s; pods of it run with the sidecar of %s. Apply the template again", says, show.Some(gone, mostNamed)), applyTemplates))
		default:
			found = append(found, failed(says+nearest.Hint(wrong[0], names), s.annotate(ns.Name, instead)))
		}
	}
	return capped(found, "namespaces with such names")
}

// anyTemplate stands in a command for the name of a template, which its reader has to choose.
const anyTemplate = "TEMPLATE"

// annotate is the command that has a namespace ask for templates.
func (s Settings) annotate(namespace string, names []string) string {
	return fmt.Sprintf("kubectl annotate namespace %s %s=%s --overwrite", namespace, s.inject(), strings.Join(names, ","))
}

// meant returns the templates that an annotation names that cannot be read.
func meant(value string, known map[string]bool) []string {
	var names []string
	for item := range strings.SplitSeq(value, ",") {
		if name := strings.TrimLeft(strings.TrimSpace(item), "+"); known[name] {
			names = append(names, name)
		}
	}
	if names == nil {
		return []string{anyTemplate}
	}
	return names
}
