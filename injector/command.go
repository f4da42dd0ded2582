package injector

import (
	"cmp"
	"regexp"

	"github.com/pillion-dev/pillion/injector/owner"
)

// DefaultNamespace is Pillion's own namespace where nothing says another.
const DefaultNamespace = "pillion-system"

// objectName are names that can stand in a shell's command as they are. The names of owners
// are the pod's to write.
var objectName = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\z`)

// explainCommand is the command that says of a request's pod, rule by rule, why it is refused:
// one that the team of the namespace can run with its own rights.
func (c Config) explainCommand(r Request) string {
	if c.Explain != "" {
		return c.Explain
	}
	return c.ExplainCommand(r.Namespace.Name, cmp.Or(explained(r), "--cluster -f POD.yaml"))
}

// ExplainCommand is the command that explains an object of the cluster, as `pillion explain`
// names it. The namespace is empty for a Namespace.
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

// explained names the object of the cluster by which a request's pod is explained: the pod, if
// it exists, or the workload that creates it. It is empty for a new pod that nothing owns.
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
