package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/show"
)

// owners are what the owners of pods of a workload are, in CEL. The pods of a CronJob have a Job, as
// others have, and do not tell of it: it is not here. A ReplicaSet of a Deployment ends its name with the label
// pod-template-hash; those of Argo's Rollouts have another label.
var owners = map[string]string{
	"Deployment":  "o.apiVersion == 'apps/v1' && o.kind == 'ReplicaSet' && pod.metadata.?labels[?'pod-template-hash'].optMap(h, o.name.endsWith('-' + h)).orValue(false)",
	"ReplicaSet":  "o.apiVersion == 'apps/v1' && o.kind == 'ReplicaSet'",
	"StatefulSet": "o.apiVersion == 'apps/v1' && o.kind == 'StatefulSet'",
	"DaemonSet":   "o.apiVersion == 'apps/v1' && o.kind == 'DaemonSet'",
	"Job":         "o.apiVersion == 'batch/v1' && o.kind == 'Job'",
}

// variable is one of Kyverno's, in JMESPath.
var variable = regexp.MustCompile(`\{\{.*?\}\}`)

// kyverno reads the rules of a ClusterPolicy, or a Policy, that add something to pods.
func (i *importer) kyverno(o map[string]any) {
	of := workload.NameOf(o)
	if spec := at(o, "metadata", "namespace"); spec != nil && o["kind"] == "Policy" {
		of = "Policy/" + textAt(o, "metadata", "name")
	}
	var mutating []any
	for _, r := range listAt(o, "spec", "rules") {
		if at(r, "mutate") == nil {
			i.noteAbout(of, "rule "+textAt(r, "name"), "changes no pod: leave it to Kyverno")
			continue
		}
		mutating = append(mutating, r)
	}
	for _, r := range mutating {
		d := i.draft(of, textAt(o, "metadata", "name"))
		if len(mutating) > 1 {
			d.name += "-" + textAt(r, "name")
		}
		d.anchors, d.overwrite, d.code = true, true, variable
		if namespace := textAt(o, "metadata", "namespace"); namespace != "" && o["kind"] == "Policy" {
			d.inNamespaces("In", []any{namespace})
		}
		d.fields(objectAt(o, "spec"), "spec.", kyvernoFields(len(listAt(o, "spec", "rules"))))
		d.kyvernoRule(objectAt(r), "rule "+textAt(r, "name")+".")
		d.finish()
	}
}

// kyvernoFields are those of Spec, in api/kyverno/v1 of Kyverno, of a policy with so many rules.
func kyvernoFields(rules int) map[string]rule {
	fields := map[string]rule{
		"rules": {}, "failurePolicy": skipsOnError,
		"admission": {apply: func(d *draft, at string, v any) {
			if v == false {
				d.suspend(at, "the policy counts for no pod that is created")
			}
		}},
		"applyRules": {apply: func(d *draft, at string, v any) {
			if v == "One" && rules > 1 {
				d.suspend(at, "only the first rule that matches counts there, and all templates that match do: write matchConditions")
			}
		}},
		"webhookConfiguration": {apply: func(d *draft, at string, v any) {
			if len(listAt(v, "matchConditions")) > 0 {
				d.suspend(at+".matchConditions", "are not carried over: write them in matchConditions, over pod and namespaceObject")
			}
		}},
	}
	for _, name := range []string{
		"background", "emitWarning", "generateExisting", "generateExistingOnPolicyUpdate", "mutateExistingOnPolicyUpdate", "schemaValidation",
		"useServerSideApply", "validationFailureAction", "validationFailureActionOverrides", "webhookTimeoutSeconds",
	} {
		fields[name] = rule{}
	}
	return fields
}

func (d *draft) kyvernoRule(r map[string]any, place string) {
	d.set(map[string]any{}, "match")
	const condition = "its conditions are not carried over: write them in matchConditions, as CEL over pod and namespaceObject"
	inside := ""
	d.fields(r, place, map[string]rule{
		"name": {}, "mutate": {}, "skipBackgroundRequests": {},
		"match":            {apply: func(d *draft, at string, v any) { inside = d.kyvernoMatch(at, v) }},
		"exclude":          {apply: (*draft).kyvernoExclude},
		"preconditions":    {suspension: condition},
		"celPreconditions": {suspension: condition},
		"context":          {omission: "an expression sees the pod, its namespace and values, and reads nothing else: use parameters and values"},
	})
	d.fields(objectAt(r, "mutate"), place+"mutate.", map[string]rule{
		"patchStrategicMerge": {apply: func(d *draft, at string, v any) {
			d.pod(d.within(v, inside, at), at+".")
		}},
		"patchesJson6902": {apply: func(d *draft, at string, v any) {
			text, _ := v.(string)
			documents, err := workload.Parse([]byte("operations:\n" + text))
			if err != nil {
				d.addNote(at, fmt.Sprintf("cannot be read: %v", err))
				return
			}
			d.patch(listAt(documents[0].Object, "operations"), inside, at)
		}},
		"foreach":                      {suspension: "what is done for each item is written with $each or $for"},
		"targets":                      {suspension: "only pods that are created are changed: objects that exist stay with Kyverno"},
		"mutateExistingOnPolicyUpdate": {},
	})
}

// resourceFilters returns the resources in the blocks of a match or an exclude. What else a block
// looks at suspends the template.
func (d *draft) resourceFilters(place string, v any) []any {
	blocks := slices.Concat(listAt(v, "any"), listAt(v, "all"))
	if at(v, "resources") != nil {
		blocks = []any{v}
	}
	var all []any
	for _, block := range blocks {
		for _, key := range slices.Sorted(maps.Keys(objectAt(block))) {
			if key != "resources" {
				d.suspend(place+"."+key, "is not carried over: a template does not see who creates a pod")
			}
		}
		all = append(all, at(block, "resources"))
	}
	return all
}

// kyvernoMatch carries over whom a rule is for. It returns the place of the pod in the objects.
func (d *draft) kyvernoMatch(place string, v any) (inside string) {
	blocks := d.resourceFilters(place, v)
	if len(blocks) != 1 || objectAt(blocks[0]) == nil {
		d.suspend(place, fmt.Sprintf("has %d blocks of resources, and one is carried over: write match and matchConditions", len(blocks)))
	}
	if len(blocks) == 0 {
		return ""
	}
	var kinds []string
	for _, k := range listAt(blocks[0], "kinds") {
		text, _ := k.(string)
		parts := strings.Split(text, "/")
		kind := parts[len(parts)-1]
		resource := resources[strings.ToLower(kind)+"s"]
		switch {
		case len(parts) > 2 && !slices.Contains([]string{"", "*", "apps", "batch"}, parts[0]):
			d.suspend(place+".kinds", fmt.Sprintf("%s is no pod and no workload of Kubernetes", show.Value(text)))
		case kind == "" || kind != resource.kind:
			d.suspend(place+".kinds", fmt.Sprintf("%s is no pod and no workload of Kubernetes", show.Value(kind)))
		case kind != "Pod":
			inside = resource.inside
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		d.suspend(place+".kinds", "are not there: write match")
	}
	d.ownedBy(kinds, place+".kinds")
	suspended := rule{suspension: "is not carried over: write it in match or matchConditions"}
	d.fields(objectAt(blocks[0]), place+".resources.", map[string]rule{
		"kinds": {}, "operations": {apply: (*draft).onCreation},
		"selector":          ofPod(inside, selects("podSelector")),
		"namespaceSelector": selects("namespaceSelector"),
		"namespaces": {apply: func(d *draft, at string, v any) {
			if strings.ContainsAny(fmt.Sprint(v), "*?") {
				d.suspend(at, suspended.suspension)
				return
			}
			d.inNamespaces("In", listAt(v))
		}},
		"annotations": ofPod(inside, rule{apply: func(d *draft, at string, v any) {
			for _, key := range slices.Sorted(maps.Keys(objectAt(v))) {
				d.whenMarked("annotations", "", key, objectAt(v)[key], at)
			}
		}}),
		"name": suspended, "names": suspended,
	})
	return inside
}

// onCreation holds what does not count when a pod, or its workload, is created.
func (d *draft) onCreation(at string, operations any) {
	if all := listAt(operations); !slices.Contains(all, any("CREATE")) && !slices.Contains(all, any("*")) {
		d.suspend(at, "do not have CREATE, and a template counts for pods that are created")
	}
}

// ofPod is a rule for what looks at the object. It suspends the template if the object is no pod.
func ofPod(inside string, r rule) rule {
	if inside == "" {
		return r
	}
	return rule{suspension: "looks at the workload, and a template sees its pods: write a podSelector or a matchCondition"}
}

// ownedBy adds a condition on the owners of pods, unless all pods are meant.
func (d *draft) ownedBy(kinds []string, place string) {
	if slices.Contains(kinds, "CronJob") {
		d.suspend(place, "the pods of a CronJob are those of a Job, and a template sees no more: give its pod template a label, and write a podSelector")
		return
	}
	var conditions []string
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		if owners[kind] != "" {
			conditions = append(conditions, owners[kind])
		}
	}
	if len(conditions) > 0 && !slices.Contains(kinds, "Pod") {
		d.when("owner", fmt.Sprintf("pod.metadata.?ownerReferences.orValue([]).exists(o, %s)", strings.Join(conditions, " || ")))
	}
}

// kyvernoExclude carries excluded namespaces over.
func (d *draft) kyvernoExclude(place string, v any) {
	for _, block := range d.resourceFilters(place, v) {
		names := listAt(block, "namespaces")
		if len(objectAt(block)) != 1 || len(names) == 0 || strings.ContainsAny(fmt.Sprint(names), "*?") {
			d.suspend(place, "only namespaces by their names are carried over: write the rest in match or matchConditions")
			continue
		}
		d.inNamespaces("NotIn", names)
	}
}
