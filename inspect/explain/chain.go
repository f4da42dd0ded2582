package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/inspect/chain"
)

// chainText writes the webhooks and policies that a pod meets.
func chainText(l *layout, c chain.Chain) {
	var phase chain.Phase
	number, others := 0, 0
	for _, link := range c.Links {
		if link.Meets == chain.No {
			others++
			continue
		}
		if link.Phase != phase {
			phase = link.Phase
			l.heading(phaseText[phase])
		}
		number++
		name := link.Configuration
		if link.Name != "" {
			name = link.Name + " in " + link.Configuration
		}
		c := plain
		switch {
		case link.Own:
			name, c = name+" (Pillion)", green
		case link.Meets == chain.Depends:
			c = yellow
		}
		l.text(2, fmt.Sprintf("%d. %s", number, name), c)
		l.rows(5, linkRows(link))
	}
	if number == 0 {
		l.heading("Webhooks and policies that the pod meets")
		none := "none that the API shows"
		if len(c.Unread) > 0 {
			none = "none of those that you may read"
		}
		l.text(2, none, plain)
	}
	if others > 0 {
		more := map[bool]string{true: "1 more is", false: fmt.Sprintf("%d more are", others)}[others == 1]
		l.text(2, more+" not about this pod; -o json names each with the reason", dim)
	}
	for _, note := range c.Notes {
		l.text(0, "note: "+note, plain)
	}
}

// phaseText are the headings.
var phaseText = map[chain.Phase]string{
	chain.MutatingPolicies: "Mutating policies, before all webhooks, in no fixed order", chain.MutatingWebhooks: "Mutating webhooks, one after the other",
	chain.ValidatingPolicies: "Validating policies, on the final pod", chain.ValidatingWebhooks: "Validating webhooks, on the final pod, all at once",
}

func linkRows(link chain.Link) []row {
	fails := "a failure refuses the pod"
	if link.FailurePolicy == "Ignore" {
		fails = "a failure lets the pod through"
	}
	fails = fmt.Sprintf("%s: %s", cmp.Or(link.FailurePolicy, "Fail"), fails)
	if link.TimeoutSeconds > 0 {
		fails += fmt.Sprintf("; timeout %d s", link.TimeoutSeconds)
	}
	if len(link.Actions) > 0 {
		fails += "; a violation: " + strings.Join(link.Actions, ", ")
	}
	rows := []row{{label: string(link.Meets), text: link.Why}, {label: "failure", text: fails}}
	if link.Calls != "" {
		rows = append(rows, row{label: "calls", text: link.Calls})
	}
	if link.Phase == chain.MutatingPolicies || link.Phase == chain.MutatingWebhooks {
		again := "no (reinvocationPolicy Never)"
		if link.Again {
			again = "yes, if the pod is changed after it (IfNeeded)"
		}
		rows = append(rows, row{label: "again", text: again})
	}
	return append(rows, row{label: "sees", text: link.Sees})
}
