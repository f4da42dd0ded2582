package injector

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/templates"
)

// DefaultNamespace is Pillion's own namespace where nothing says another.
const DefaultNamespace = "pillion-system"

// objectName are names that can stand in a shell's command as they are. The names of owners
// are the pod's to write.
var objectName = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\z`)

// shortKinds are kubectl's names of the kinds that `pillion explain` knows, by group and kind.
var shortKinds = map[string]string{
	"apps/ReplicaSet": "rs", "apps/StatefulSet": "sts", "apps/DaemonSet": "ds", "batch/Job": "job", "/ReplicationController": "rc",
}

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
	if prefix := cmp.Or(c.Prefix, templates.DefaultPrefix); prefix != templates.DefaultPrefix {
		command += " --annotation-prefix " + prefix
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
	labels, _ := metadata["labels"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, item := range owners {
		owner, _ := item.(map[string]any)
		version, _ := owner["apiVersion"].(string)
		kind, _ := owner["kind"].(string)
		name, _ := owner["name"].(string)
		if controller, _ := owner["controller"].(bool); !controller || !objectName.MatchString(name) {
			continue
		}
		group, _, ok := strings.Cut(version, "/")
		if !ok {
			group = ""
		}
		short, known := shortKinds[group+"/"+kind]
		hash, _ := labels["pod-template-hash"].(string)
		if deployment, ok := strings.CutSuffix(name, "-"+hash); ok && short == "rs" && hash != "" && objectName.MatchString(deployment) {
			return "deploy/" + deployment
		}
		if known {
			return short + "/" + name
		}
	}
	return ""
}
