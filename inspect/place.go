package inspect

import (
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// Place is the location of Pillion: the cluster, and the namespace.
type Place struct {
	// Kubeconfig is a file, or "" for kubectl's default. Context is a context in it, or "" for the
	// current one.
	Kubeconfig, Context string
	// Namespace is Pillion's own.
	Namespace string
	// URLs are the admin ports of replicas. If the list is empty, the replicas are found by their
	// pods.
	URLs []string
}

// Args returns the flags that select the same installation in another command, each with a space
// before it.
func (p Place) Args() string {
	args := ""
	if p.Namespace != injector.DefaultNamespace {
		args += " --pillion-namespace " + rights.Word(p.Namespace)
	}
	return args + p.flags("--context")
}

// commandNames matches kubectl and helm at the beginning of a command, or after a pipe, && or a bracket.
var commandNames = regexp.MustCompile(`(^|\| |&& |\()(kubectl|helm) `)

// flags returns the flags that name the cluster, each with a space before it.
func (p Place) flags(context string) string {
	flags := ""
	if p.Kubeconfig != "" {
		flags += " --kubeconfig " + rights.Word(p.Kubeconfig)
	}
	if p.Context != "" {
		flags += " " + context + " " + rights.Word(p.Context)
	}
	return flags
}

// Command adds the flags of the cluster to a command. Without them, a pasted command would run in
// the kubeconfig's current context.
func (p Place) Command(text string) string {
	if p.Kubeconfig == "" && p.Context == "" {
		return text
	}
	if strings.HasPrefix(text, "pillion ") {
		own, piped, found := strings.Cut(text, " | ")
		own += p.flags("--context")
		if found {
			own += " | " + p.Command(piped)
		}
		return own
	}
	return commandNames.ReplaceAllStringFunc(text, func(found string) string {
		context := "--context"
		if strings.HasSuffix(found, "helm ") {
			context = "--kube-context"
		}
		return strings.TrimSuffix(found, " ") + p.flags(context) + " "
	})
}

// AddFlags adds the flags of the cluster to the commands of a report. It leaves out commands for an
// admin who grants a right.
func (p Place) AddFlags(r explain.Report) {
	for _, pod := range r.Pods {
		if pod.Running != nil && pod.Running.Remedy != "" {
			pod.Running.Remedy = p.Command(pod.Running.Remedy)
		}
	}
}
