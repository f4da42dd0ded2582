package injector

import (
	"cmp"
	"regexp"

	"github.com/pillion-dev/pillion/injector/owner"
)

// DefaultNamespace is Pillion's own namespace if none is configured.
const DefaultNamespace = "pillion-system"

// objectName matches names that need no quotes in a shell's command. A pod's author can write any owner's name.
var objectName = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\z`)

// explainCommand returns the command that explains a refusal. The namespace's team can run it with its own
// rights.
func (c Config) explainCommand(r Request) string {
	if c.Explain != "" {
		return c.Explain
	}
	return c.ExplainCommand(r.Namespace.Name, cmp.Or(explained(r), "--cluster -f POD.yaml"))
}

// ExplainCommand returns the `pillion explain` command for an object of the cluster. The namespace is empty for
// a Namespace.
func (c Config) ExplainCommand(namespace, object string) string {
	command := "kubectl pillion explain"
	if namespace != "" {
		command += " -n " + namespace
	}
	if c.Namespace != "" && c.Namespace != DefaultNamespace {
		command += " --pillion-namespace " + c.Namespace
	}
	return command + " " + object
}

// ExplainCommand is [Config.ExplainCommand] with the pipeline's configuration.
func (p *Pipeline) ExplainCommand(namespace, object string) string {
	return p.config.ExplainCommand(namespace, object)
}

// explained returns the object of the cluster that explains a request's pod: the pod if it exists, or the
// workload that creates it. It returns "" for a new pod without an owner.
func explained(r Request) string {
	metadata, _ := r.Pod["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); r.Operation != "CREATE" && objectName.MatchString(name) {
		return "pod/" + name
	}
	of, _ := owner.Controller(r.Pod)
	kind, known := owner.Of(of.APIVersion, of.Kind)
	if !known || !kind.CreatesPods() || !objectName.MatchString(of.Name) {
		return ""
	}
	if w := owner.WorkloadOf(r.Pod); w.Kind == "Deployment" && objectName.MatchString(w.Name) {
		return "deploy/" + w.Name
	}
	return kind.Short + "/" + of.Name
}
