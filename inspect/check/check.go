package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pillionrights "github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect"
)

// Result is how a check ended.
type Result string

// The results, the best first.
const (
	OK Result = "ok"
	// Skipped: a right is missing to look, or there is nothing to look at.
	Skipped Result = "skipped"
	// Warning: no harm is done now.
	Warning Result = "warning"
	Failed  Result = "failed"
)

// severity orders results, the worst last.
var severity = []Result{OK, Skipped, Warning, Failed}

// Finding is one thing that a check found.
type Finding struct {
	Result Result `json:"result"`
	// Message is a sentence that names the object and the fault.
	Message string `json:"message"`
	// Remedy is the command that helps, or that shows more. A reader can run it as it is, but for
	// words in capitals.
	Remedy string `json:"remedy,omitempty"`
	// Unseen: the user lacks the right to look at something that is there.
	Unseen bool `json:"unseen,omitempty"`
}

// Check is one question about an installation.
type Check struct {
	Name string
	// Description holds if nothing is found. Hint names the consequence of a failure.
	Description, Hint string
	// run reads and judges. An error says what could not be read.
	run func(ctx context.Context, in *installation) ([]Finding, error)
}

// All returns the checks in the order of a report.
func All() []Check {
	return []Check{
		{"api-server", "the API server answers, with a version that Pillion supports", "Nothing else can be told before.", apiServer},
		{"deployment", "Pillion's Deployment is there, and its replicas are available", "While no replica answers, pods come without their sidecars, and are refused in enforced namespaces.", deployment},
		{"replicas", "every replica is ready, of the version of this pillion, and knows the cluster as it is", "What a pod gets depends on the replica that answers.", replicas},
		{"account", "Pillion's service account is there, and API servers accept the replicas' tokens", "Replicas without a valid token still inject pods, but restore no label and no caBundle.", account},
		{"rights", "the roles of Pillion's service account are there, as the chart renders them", "The log of the replicas says what they cannot do.", rights},
		{"policies", "the chart's admission policies are there, as the chart renders them", "They hold Pillion's token to what it needs, and keep namespace owners from setting Pillion's labels.", policies},
		{"crds", "the CRDs of templates are established, and as new as the server", "Replicas that run keep their templates; replicas that start have none.", crds},
		{"registration", "API servers call Pillion by the objects that the chart renders", "API servers know Pillion by these objects alone: what is left out is not injected or not verified.", registration},
		{"certificates", "the caBundles verify every replica, and no certificate ends soon", "API servers do not call a Pillion that they cannot verify.", certificates},
		{"proof", "a pod that the API server creates by dry run comes back with its sidecar", "Pods of other namespaces may go without theirs, too.", proven},
		{"templates", "every template compiles and is accepted, and all replicas apply the same", "Pods that want a template with a mistake are treated by its onError.", allTemplates},
		{"template-names", "namespaces name only templates that are there", "Pods that ask for a template that is not there are refused.", templateNames},
		{"required-policies", "the admission policies of required templates are as the templates are", "API servers may refuse pods that Pillion injects, and let others pass.", requiredPolicies},
		{"labels", "namespaces have the labels that their annotations and the templates ask for", "API servers call Pillion for namespaces with its labels.", namespaceLabels},
	}
}

// Outcome is a check with its result.
type Outcome struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hint        string `json:"-"`
	// Result is the worst of the findings, OK without any.
	Result   Result    `json:"result"`
	Findings []Finding `json:"findings,omitempty"`
}

// Report has the outcomes of all checks.
type Report struct {
	Outcomes []Outcome
}

// Count returns how many checks ended so.
func (r Report) Count(result Result) int {
	n := 0
	for _, o := range r.Outcomes {
		if o.Result == result {
			n++
		}
	}
	return n
}

// Judged reports whether it can be told if the installation is sound: something failed, or the user
// has the rights to look at everything.
func (r Report) Judged() bool {
	return r.Count(Failed) > 0 || !slices.ContainsFunc(r.Outcomes, func(o Outcome) bool {
		return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Unseen })
	})
}

// Sound reports whether all was looked at and nothing failed; strict counts warnings and skipped
// checks, too.
func (r Report) Sound(strict bool) bool {
	return r.Judged() && r.Count(Failed) == 0 && (!strict || r.Count(Warning)+r.Count(Skipped) == 0)
}

// timeout bounds all that is read.
const timeout = time.Minute

// Run asks the checks, those that wait for none at the same time. Version is that of this program.
func Run(ctx context.Context, cluster *inspect.Cluster, version string, now time.Time) Report {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	checks, in := All(), newInstallation(ctx, cluster, version, now)
	r := Report{Outcomes: []Outcome{checks[0].outcome(ctx, in)}}
	if r.Count(Failed) > 0 {
		return r
	}
	in.release, in.absent = cluster.Release(ctx)
	r.Outcomes = append(r.Outcomes, make([]Outcome, len(checks)-1)...)
	var all sync.WaitGroup
	for i, c := range checks[1:] {
		all.Go(func() { r.Outcomes[i+1] = c.outcome(ctx, in) })
	}
	all.Wait()
	for _, o := range r.Outcomes {
		for i, f := range o.Findings {
			if f.Result != Skipped { // the rights that are missing are granted elsewhere
				o.Findings[i].Remedy = cluster.Command(f.Remedy)
			}
		}
	}
	return r
}

// outcome runs the check.
func (c Check) outcome(ctx context.Context, in *installation) Outcome {
	o := Outcome{Name: c.Name, Description: c.Description, Hint: c.Hint, Result: OK}
	if in.absent != nil && c.Name != "deployment" {
		o.Findings = skipped("not looked at: Pillion's Deployment is not known")
	} else {
		findings, err := c.run(ctx, in)
		if err != nil {
			findings = append(findings, unread(err))
		}
		o.Findings = findings
	}
	for _, f := range o.Findings {
		if slices.Index(severity, f.Result) > slices.Index(severity, o.Result) {
			o.Result = f.Result
		}
	}
	return o
}

// failure is an error that is a finding of its own, whichever check meets it.
type failure struct{ Finding }

func (f failure) Error() string { return f.Message }

// unread returns the finding of something that could not be read.
func unread(err error) Finding {
	var own failure
	if errors.As(err, &own) {
		return own.Finding
	}
	err = pillionrights.Named(err)
	var missing *pillionrights.MissingError
	switch {
	case errors.As(err, &missing):
		return Finding{Result: Skipped, Unseen: true, Message: fmt.Sprintf("not looked at: you lack the right to %s", missing.Right), Remedy: strings.Join(missing.Commands(), " && ")}
	case errors.Is(err, pillionrights.ErrAnonymous):
		return failed(oneLine(err.Error()), "kubectl config view --minify")
	}
	return failed(oneLine(err.Error()), "kubectl get --raw '/readyz?verbose'")
}

func failed(message, remedy string) Finding {
	return Finding{Result: Failed, Message: message, Remedy: remedy}
}

func warning(message, remedy string) Finding {
	return Finding{Result: Warning, Message: message, Remedy: remedy}
}

// skipped are the findings of a check that has nothing to look at.
func skipped(why string) []Finding { return []Finding{{Result: Skipped, Message: why}} }

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

const (
	// mostFindings bounds how many findings of one kind a check tells; the last one says how many
	// more there are.
	mostFindings = 5
	// mostNamed bounds how many names a finding has.
	mostNamed = 3
)

// capped leaves out findings beyond the most, and says how many.
func capped(found []Finding, kind string) []Finding {
	if more := len(found) - mostFindings; more > 0 {
		return append(found[:mostFindings:mostFindings], Finding{Result: found[0].Result, Message: fmt.Sprintf("and %d more %s", more, kind)})
	}
	return found
}
