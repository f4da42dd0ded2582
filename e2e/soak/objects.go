package soak

// Names of Pillion's, as the chart has them by default.
const (
	injectAnnotation = "pillion.dev/inject"
	statusAnnotation = "pillion.dev/status"
	injectionLabel   = "pillion.dev/injection"
	requiredLabel    = "pillion.dev/required"
)

// namespaces are those of the load.
var namespaces = map[Kind]string{NeverAsked: "soak-never", Enabled: "soak-enabled", Enforced: "soak-enforced", Required: "soak-required"}

// The templates have the names of their containers: one that namespaces ask for, and one that
// selects a namespace.
const (
	askedTemplate     = "soak-asked"
	selectingTemplate = "soak-selecting"
	canaryTemplate    = "soak-next"
)

// versionVariable is the variable of their containers that has the template's version.
const versionVariable = "VERSION"

// inject is what each of them injects, as the container of that name.
func inject(name string) string {
	return `
  parameters: [{name: version, type: string, default: v0}]
  inject:
    spec:
      initContainers:
      - name: ` + name + `
        restartPolicy: Always
        image: registry.example.com/side:1
        env: [{name: ` + versionVariable + `, value: "${params.version}"}]
`
}

const header = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\n"

var (
	asked     = header + "metadata: {name: " + askedTemplate + "}\nspec:" + inject(askedTemplate)
	selecting = header + "metadata: {name: " + selectingTemplate + "}\nspec:\n  required: true\n" +
		"  match: {namespaceSelector: {matchLabels: {example.com/soak: required}}}" + inject(selectingTemplate)
	// canary refuses every pod that it selects.
	canary = header + "metadata: {name: " + canaryTemplate + "}\nspec:\n  canary: {of: " + askedTemplate + ", percent: 50}\n" +
		`  validations: [{name: wrong, expression: "has(pod.spec.nodeName)", message: "the canary refuses all pods"}]` + inject(askedTemplate)
)
