package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// policyManifest is a MutatingAdmissionPolicy that makes the addition to the pods of one
// namespace, by a JSON patch: an apply configuration may not set a list that is replaced as a
// whole, such as a container's arguments.
const policyManifest = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  matchConditions:
  - {name: not-yet, expression: "!object.spec.?initContainers.orValue([]).exists(c, c.name == '%[3]s')"}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: %[4]s}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`

// typeNames turns the path of an operation into what CEL calls the type of its value, or of its items.
var typeNames = strings.NewReplacer("/0", "", "/-", "", "/", ".")

// policy is the manifest of the policy of that name, for one namespace.
func (a addition) policy(name, namespace string) (string, error) {
	var operations []string
	for _, o := range a.operations(nil) {
		text, err := json.Marshal(o.Value)
		if err != nil {
			return "", err
		}
		var value any
		if err := utiljson.Unmarshal(text, &value); err != nil {
			return "", err
		}
		if list, ok := value.([]any); ok {
			// kube-apiserver 1.36 panics where the value of an operation is a list of objects.
			operations = append(operations, fmt.Sprintf("JSONPatch{op: %q, path: %q, value: []}", o.Op, o.Path))
			o.Path, value = o.Path+"/-", list[0]
		}
		operations = append(operations, fmt.Sprintf("JSONPatch{op: %q, path: %q, value: %s}", o.Op, o.Path, celObject(value, "Object"+typeNames.Replace(o.Path))))
	}
	expression, err := json.Marshal("[" + strings.Join(operations, ", ") + "]") // JSON is YAML
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(policyManifest, name, namespace, a.Sidecar.Name, expression), nil
}

// mapFields are the fields of a container that are maps, and not objects of a type.
var mapFields = []string{"limits", "requests"}

// celObject is a JSON value as CEL has it, with the type of that name for an object.
func celObject(value any, typeName string) string {
	switch v := value.(type) {
	case map[string]any:
		isMap := slices.ContainsFunc(mapFields, func(f string) bool { return strings.HasSuffix(typeName, "."+f) })
		var fields []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name := key
			if isMap {
				name = strconv.Quote(key)
			}
			fields = append(fields, name+": "+celObject(v[key], typeName+"."+key))
		}
		if isMap {
			typeName = ""
		}
		return typeName + "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, celObject(item, typeName))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(value) // a number or a boolean
}
