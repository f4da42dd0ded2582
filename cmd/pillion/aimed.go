package main

import (
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/check"
	"github.com/pillion-dev/pillion/clientset/rights"
	"github.com/pillion-dev/pillion/offline/explain"
)

// aim is the cluster that flags choose instead of the kubeconfig's current context. Commands that
// are shown have to name it, or they change another cluster when they are pasted.
type aim struct{ kubeconfig, context string }

// tools finds the programs of a command, behind its beginning, a pipe or a bracket.
var tools = regexp.MustCompile(`(^|\| |\()(kubectl|helm) `)

// flags returns the flags that name the cluster, each with a space before it.
func (a aim) flags(context string) string {
	flags := ""
	if a.kubeconfig != "" {
		flags += " --kubeconfig " + rights.Word(a.kubeconfig)
	}
	if a.context != "" {
		flags += " " + context + " " + rights.Word(a.context)
	}
	return flags
}

// command returns a command for the cluster.
func (a aim) command(text string) string {
	if a == (aim{}) {
		return text
	}
	if strings.HasPrefix(text, "pillion ") {
		own, piped, found := strings.Cut(text, " | ")
		own += a.flags("--context")
		if found {
			own += " | " + a.command(piped)
		}
		return own
	}
	return tools.ReplaceAllStringFunc(text, func(found string) string {
		context := "--context"
		if strings.HasSuffix(found, "helm ") {
			context = "--kube-context"
		}
		return strings.TrimSuffix(found, " ") + a.flags(context) + " "
	})
}

// commands returns commands for the cluster. The ones that are given may stand elsewhere, too,
// and stay as they are.
func (a aim) commands(all []string) []string {
	var aimed []string
	for _, text := range all {
		aimed = append(aimed, a.command(text))
	}
	return aimed
}

// check aims the commands of a check's report, but for those of an admin who grants a right:
// they are run elsewhere.
func (a aim) check(r check.Report) {
	for _, o := range r.Outcomes {
		for i, f := range o.Findings {
			if f.Result != check.Skipped {
				o.Findings[i].Remedy = a.commands(f.Remedy)
			}
		}
	}
}

// explain aims the commands of an explanation, but for those of an admin who grants a right.
func (a aim) explain(r explain.Report) {
	for _, p := range r.Pods {
		if p.Running != nil && p.Running.Remedy != "" {
			p.Running.Remedy = a.command(p.Running.Remedy)
		}
	}
}
