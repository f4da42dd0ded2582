package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/reason"
)

// SetDryRun sets the API server's answer. If the answer contradicts the verdict of the rules, it becomes
// the verdict.
func (p *Pod) SetDryRun(d DryRun) {
	p.DryRun = &d
	var missing []string
	for _, t := range p.Templates {
		if t.Code == reason.Injected && !slices.Contains(d.Templates, t.Name) {
			missing = append(missing, t.Name)
		}
	}
	switch {
	case !d.Allowed && p.isOwnQuota():
	case p.noTemplates:
		p.Refused = !d.Allowed
		p.setAnswerVerdict()
	case !d.Allowed:
		p.refuse(d.Text)
	case p.Refused:
		p.Verdict, p.Refused = "admitted, as the API server answers; by the rules that can be read: "+p.Verdict, false
	case len(missing) > 0:
		p.removeRestart()
		p.Verdict = fmt.Sprintf("admitted without %s, as the API server answers; by the rules: %s", strings.Join(missing, ", "), p.Verdict)
	}
}

// isOwnQuota reports whether the API server refused the pod for a quota that the workload's own pods use
// up.
func (p *Pod) isOwnQuota() bool {
	return strings.Contains(p.DryRun.Text, "exceeded quota") && p.Running != nil && p.Running.Pods > 0 && p.Running.Failure == nil
}

// TrustFailure makes the newest failure of a workload without pods the verdict. It stands in for a dry run
// that the user may not make.
func (p *Pod) TrustFailure() {
	if p.Running != nil && p.Running.Failure != nil && p.Running.Pods == 0 {
		p.refuse("refused: " + p.Running.Failure.Message)
	}
}

// refuse sets the verdict to a refusal, without the command that would replace running pods.
func (p *Pod) refuse(verdict string) {
	p.Verdict, p.Refused = verdict, true
	p.removeRestart()
}

// removeRestart removes the command that would replace running pods, because the new ones would not differ.
func (p *Pod) removeRestart() {
	if p.Running != nil {
		p.Running.Remedy = ""
	}
}
