package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/show"
)

// resources are what a policy may be for: the kind, and the place of the pod in the object.
var resources = map[string]struct{ kind, inside string }{
	"pods": {"Pod", ""}, "deployments": {"Deployment", "/spec/template"}, "replicasets": {"ReplicaSet", "/spec/template"},
	"statefulsets": {"StatefulSet", "/spec/template"}, "daemonsets": {"DaemonSet", "/spec/template"},
	"jobs": {"Job", "/spec/template"}, "cronjobs": {"CronJob", "/spec/jobTemplate/spec/template"},
}

// unseen are names that a policy's expressions see and a template's do not.
var unseen = regexp.MustCompile(`\b(params|oldObject|request|authorizer|variables)\b`)

var looksAtObject = regexp.MustCompile(`\bobject\b`)

// isAbsent finds the condition that a policy needs because it may run twice.
var isAbsent = regexp.MustCompile(`\A(?:!\s*has\(object\.spec\.(?:template\.spec\.)?\w+\)\s*\|\|\s*)?!\s*object\.spec\.(?:template\.spec\.)?(?:initContainers|containers)\.exists\(\s*\w+,\s*\w+\.name\s*==\s*["']([^"']+)["']\s*\)\z`)

// admissionPolicy reads a MutatingAdmissionPolicy (k8s.io/api/admissionregistration), or a
// MutatingPolicy of Kyverno, which has its fields.
func (i *importer) admissionPolicy(o map[string]any) {
	d := i.draft(workload.NameOf(o), textAt(o, "metadata", "name"))
	d.overwrite = true
	d.set(map[string]any{}, "match")
	spec := objectAt(o, "spec")
	inside := d.resourceRules("spec.matchConstraints.resourceRules", listAt(spec, "matchConstraints", "resourceRules"))
	d.fields(objectAt(spec, "matchConstraints"), "spec.matchConstraints.", matchResources(inside, rule{}))
	d.fields(spec, "spec.", map[string]rule{
		"matchConstraints": {}, "matchConditions": {}, "reinvocationPolicy": {}, "autogen": {}, "webhookConfiguration": {},
		"failurePolicy": skipsOnError,
		"evaluation": {apply: func(d *draft, place string, v any) {
			if at(v, "admission", "enabled") == false {
				d.suspend(place+".admission", "the policy counts for no pod that is created")
			}
		}},
		"paramKind": {omission: "a template reads no object: declare parameters, which teams set by annotation, or use the installer's values"},
		"variables": {omission: "what reads them is not carried over: write variables of the template, over pod"},
		"mutations": {apply: func(d *draft, at string, v any) { d.mutations(at, listAt(v), inside) }},
	})
	d.policyConditions(listAt(spec, "matchConditions"), inside)
	d.bindings(textAt(o, "metadata", "name"), inside, o["kind"] == "MutatingAdmissionPolicy")
	d.finish()
}

// matchResources are the fields of MatchResources, of a policy or of its binding.
func matchResources(inside string, resourceRules rule) map[string]rule {
	return map[string]rule{
		"matchPolicy":          {},
		"namespaceSelector":    selects("namespaceSelector"),
		"objectSelector":       ofPod(inside, selects("podSelector")),
		"excludeResourceRules": {suspension: "is not carried over: write it in match or matchConditions"},
		"resourceRules":        resourceRules,
	}
}

// skipsOnError carries failurePolicy over.
var skipsOnError = rule{apply: func(d *draft, _ string, v any) {
	if v == "Ignore" {
		d.set("Skip", "onError")
	}
}}

// resourceRules returns the place of the pod in the objects that a policy is for.
func (d *draft) resourceRules(place string, rules []any) (inside string) {
	var kinds []string
	if len(rules) == 0 {
		d.suspend(place, "are not there: write match")
	}
	for i, r := range rules {
		d.fields(objectAt(r), fmt.Sprintf("%s[%d].", place, i), map[string]rule{
			"resources": {}, "apiVersions": {}, "operations": {apply: (*draft).onCreation},
			"resourceNames": {suspension: "a template does not choose pods by their names: write a podSelector"},
			"apiGroups": {apply: func(d *draft, at string, v any) {
				for _, group := range listAt(v) {
					if !slices.Contains([]any{"", "*", "apps", "batch"}, group) {
						d.suspend(at, fmt.Sprintf("%s has no pods and no workloads of Kubernetes", show.Value(fmt.Sprint(group))))
					}
				}
			}},
			"scope": {apply: func(d *draft, at string, v any) {
				if v == "Cluster" {
					d.suspend(at, "pods are in namespaces")
				}
			}},
		})
		for _, name := range listAt(r, "resources") {
			resource, known := resources[fmt.Sprint(name)]
			if !known {
				d.suspend(place, fmt.Sprintf("%s are no pods and no workloads of Kubernetes", show.Value(fmt.Sprint(name))))
				continue
			}
			kinds = append(kinds, resource.kind)
			if resource.kind != "Pod" {
				inside = resource.inside
			}
		}
	}
	d.ownedBy(kinds, place)
	return inside
}

// mutations carries over what expressions write out.
func (d *draft) mutations(place string, all []any, inside string) {
	for i, m := range all {
		at := fmt.Sprintf("%s[%d]", place, i)
		if textAt(m, "applyConfiguration", "expression")+textAt(m, "jsonPatch", "expression") == "" {
			d.suspend(at, "has no expression: write it as inject")
		}
		for _, form := range []string{"applyConfiguration", "jsonPatch"} {
			source := textAt(m, form, "expression")
			if source == "" {
				continue
			}
			value, err := literalOf(source)
			if text, isCode := value.(code); err != nil || isCode {
				d.suspend(at, fmt.Sprintf("is no object that the expression writes out (%v): write it as inject", show.Value(string(text))))
				continue
			}
			if operations, isList := value.([]any); isList {
				d.patch(operations, inside, at)
				continue
			}
			d.pod(d.within(value, inside, at), at+".")
		}
	}
}

// policyConditions carries matchConditions over that look at the object.
func (d *draft) policyConditions(conditions []any, inside string) {
	var added []string
	for _, list := range containerLists {
		for _, c := range listAt(d.spec, "inject", "spec", list) {
			added = append(added, textAt(c, "name"))
		}
	}
	for _, c := range conditions {
		name, source := textAt(c, "name"), strings.TrimSpace(textAt(c, "expression"))
		absent := isAbsent.FindStringSubmatch(source)
		switch {
		case absent != nil && slices.Contains(added, absent[1]): // Pillion knows what it has injected
		case unseen.MatchString(source):
			d.suspend("spec.matchConditions."+name, "reads what a template does not see: write it in matchConditions over pod, namespaceObject, params and values")
		case inside != "" && looksAtObject.MatchString(source):
			d.suspend("spec.matchConditions."+name, "looks at the workload, and a template sees its pods: write it in matchConditions over pod")
		default:
			renamed, err := renameIn(source, "object", "pod")
			if err != nil {
				d.suspend("spec.matchConditions."+name, fmt.Sprintf("%v: write it in matchConditions over pod", err))
				continue
			}
			d.when(conditionName(name), renamed)
		}
	}
}

// bindings restricts the template by the policy's binding, if the file has it.
func (d *draft) bindings(policy, inside string, needed bool) {
	var found []map[string]any
	for _, o := range d.objects {
		if o["kind"] == "MutatingAdmissionPolicyBinding" && textAt(o, "spec", "policyName") == policy {
			found = append(found, objectAt(o, "spec"))
		}
	}
	if len(found) == 0 && needed {
		d.suspend("", "no MutatingAdmissionPolicyBinding of it is in the file, which says where the policy counts: add it, or write match")
	}
	if len(found) > 1 {
		d.suspend("", fmt.Sprintf("has %d bindings, and one is carried over: write match", len(found)))
	}
	if len(found) != 1 {
		return
	}
	d.fields(found[0], "binding.spec.", map[string]rule{
		"policyName": {},
		"paramRef":   {omission: "a template reads no object: declare parameters, or use the installer's values"},
		"matchResources": {apply: func(d *draft, at string, v any) {
			d.fields(objectAt(v), at+".", matchResources(inside, rule{suspension: "is not carried over: what it leaves out of the policy's goes into match or matchConditions"}))
		}},
	})
}
