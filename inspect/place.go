package inspect

import (
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// Place says where Pillion is: in which cluster, and where there.
type Place struct {
	// Kubeconfig is a file, "" for where kubectl looks. Context is one of it, "" for the current one.
	Kubeconfig, Context string
	// Namespace is Pillion's own.
	Namespace string
	// URLs are those of the admin ports of replicas, to ask instead of the pods.
	URLs []string
}

// Args are the flags that lead another command to the same installation, each with a space before
// it.
func (p Place) Args() string {
	args := ""
	if p.Namespace != injector.DefaultNamespace {
		args += " --pillion-namespace " + rights.Word(p.Namespace)
	}
	return args + p.flags("--context")
}

// tools finds the programs of a command, behind its beginning, a pipe, && or a bracket.
var tools = regexp.MustCompile(`(^|\| |&& |\()(kubectl|helm) `)

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

// Command returns a command for the cluster. Commands that are shown have to name the cluster that
// flags choose: they would change the one of the kubeconfig's current context where they are pasted.
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
	return tools.ReplaceAllStringFunc(text, func(found string) string {
		context := "--context"
		if strings.HasSuffix(found, "helm ") {
			context = "--kube-context"
		}
		return strings.TrimSuffix(found, " ") + p.flags(context) + " "
	})
}

// AimExplain has the commands of an explanation name the cluster, but for those of an admin who
// grants a right.
func (p Place) AimExplain(r explain.Report) {
	for _, pod := range r.Pods {
		if pod.Running != nil && pod.Running.Remedy != "" {
			pod.Running.Remedy = p.Command(pod.Running.Remedy)
		}
	}
}
