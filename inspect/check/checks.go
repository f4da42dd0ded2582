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

// Result is the result of a check.
type Result string

// The results, the best first.
const (
	OK Result = "ok"
	// Skipped means that a right is missing, or that there is nothing to check.
	Skipped Result = "skipped"
	// Warning means a fault that does no harm now.
	Warning Result = "warning"
	Failed  Result = "failed"
)

// severity orders results, the worst last.
var severity = []Result{OK, Skipped, Warning, Failed}

// Finding is a fault, or the reason why a check was skipped.
type Finding struct {
	Result Result `json:"result"`
	// Message is a sentence that names the object and the fault.
	Message string `json:"message"`
	// Remedy is the command that repairs the fault, or that shows more. A reader can run it as it
	// is, but has to replace words in capitals.
	Remedy string `json:"remedy,omitempty"`
	// Unseen means that the user lacks the right to read an object.
	Unseen bool `json:"unseen,omitempty"`
}

// Check is one question about an installation.
type Check struct {
	Name string
	// Description is true if there are no findings. Hint names the consequence of a failure.
	Description, Hint string
	// run returns the findings. Its error is about an object that could not be read.
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
		{"proof", "a pod that the API server creates by dry run comes back with its sidecar", "Pods of other namespaces may go without theirs, too.", checkProof},
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
	// Result is the worst result of the findings, or OK.
	Result   Result    `json:"result"`
	Findings []Finding `json:"findings,omitempty"`
}

// Report has the outcomes of all checks.
type Report struct {
	Outcomes []Outcome
}

// Count returns the number of checks with a result.
func (r Report) Count(result Result) int {
	n := 0
	for _, o := range r.Outcomes {
		if o.Result == result {
			n++
		}
	}
	return n
}

// IsConclusive reports whether the report shows if the installation is sound: a check failed, or the
// user had the rights for all checks.
func (r Report) IsConclusive() bool {
	return r.Count(Failed) > 0 || !slices.ContainsFunc(r.Outcomes, func(o Outcome) bool {
		return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Unseen })
	})
}

// IsSound reports whether the report is conclusive and no check failed. With strict, it returns false
// also for warnings and skipped checks.
func (r Report) IsSound(strict bool) bool {
	return r.IsConclusive() && r.Count(Failed) == 0 && (!strict || r.Count(Warning)+r.Count(Skipped) == 0)
}

// timeout bounds all checks together.
const timeout = time.Minute

// Run runs the first check, and then the other checks at the same time. version is the version of this
// program.
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
			if f.Result != Skipped { // an admin grants missing rights, with another kubeconfig
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
		o.Findings = skipped("not checked: Pillion's Deployment is not known")
	} else {
		findings, err := c.run(ctx, in)
		if err != nil {
			findings = append(findings, readFailure(err))
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

// failure is an error with its finding.
type failure struct{ Finding }

func (f failure) Error() string { return f.Message }

// readFailure returns the finding for an error of a read.
func readFailure(err error) Finding {
	var own failure
	if errors.As(err, &own) {
		return own.Finding
	}
	err = pillionrights.Explain(err)
	var missing *pillionrights.MissingError
	switch {
	case errors.As(err, &missing):
		return Finding{Result: Skipped, Unseen: true, Message: fmt.Sprintf("not checked: you lack the right to %s", missing.Right), Remedy: strings.Join(missing.Commands(), " && ")}
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

// skipped returns the finding of a check that has nothing to check.
func skipped(why string) []Finding { return []Finding{{Result: Skipped, Message: why}} }

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

const (
	// maxFindings bounds the findings of one kind. One more finding gives the number of the others.
	maxFindings = 5
	// maxNames bounds the names in a finding.
	maxNames = 3
)

// limit replaces the findings beyond maxFindings by one with their number.
func limit(found []Finding, kind string) []Finding {
	if more := len(found) - maxFindings; more > 0 {
		return append(found[:maxFindings:maxFindings], Finding{Result: found[0].Result, Message: fmt.Sprintf("and %d more %s", more, kind)})
	}
	return found
}
