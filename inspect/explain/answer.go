package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/reason"
)

// Answer adds the API server's answer to the creation of the pod, which is the verdict where the rules
// say something else.
func (p *Pod) Answer(d DryRun) {
	p.DryRun = &d
	var missing []string
	for _, t := range p.Templates {
		if t.Code == reason.Injected && !slices.Contains(d.Templates, t.Name) {
			missing = append(missing, t.Name)
		}
	}
	switch {
	case !d.Allowed && p.makesRoom():
	case !d.Allowed:
		p.refuse(d.Says)
	case p.Refused:
		p.Verdict, p.Refused = "admitted, as the API server answers; by the rules that can be read: "+p.Verdict, false
	case len(missing) > 0:
		p.Verdict = fmt.Sprintf("admitted without %s, as the API server answers; by the rules: %s", strings.Join(missing, ", "), p.Verdict)
	}
}

// makesRoom reports whether the API server refused one more pod for a quota that the workload's own pods
// use up.
func (p *Pod) makesRoom() bool {
	return strings.Contains(p.DryRun.Says, "exceeded quota") && p.Running != nil && p.Running.Pods > 0 && p.Running.Failure == nil
}

// TrustFailure has the newest failure of a workload without any pod be the verdict, where the API server
// cannot be asked.
func (p *Pod) TrustFailure() {
	if p.Running != nil && p.Running.Failure != nil && p.Running.Pods == 0 {
		p.refuse("refused: " + p.Running.Failure.Message)
	}
}

// refuse has the verdict be that no new pod comes to be. So nothing is gained by replacing those that run.
func (p *Pod) refuse(verdict string) {
	p.Verdict, p.Refused = verdict, true
	if p.Running != nil {
		p.Running.Remedy = ""
	}
}
