package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/controller/rights"
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

// severity orders results, the worst highest.
var severity = map[Result]int{OK: 0, Skipped: 1, Warning: 2, Failed: 3}

// Finding is one thing that a check found.
type Finding struct {
	Result Result `json:"result"`
	// Says is a sentence that names the object, what is wrong, and what follows from it.
	Says string `json:"says"`
	// Remedy has the commands that help, in order. A reader can run them as they are, but for
	// words in capitals.
	Remedy []string `json:"remedy,omitempty"`
	// Unseen says that there is something to judge, and that the user lacks the right to look.
	Unseen bool `json:"unseen,omitempty"`
}

// Check is one question about an installation.
type Check interface {
	// About names the check.
	About() About
	// Judge returns what it finds; nothing if all is well. An error says why it cannot tell.
	Judge(f *Facts) ([]Finding, error)
}

// About names a check.
type About struct {
	// Section is the heading that it stands under, Name how scripts find it.
	Section string `json:"section"`
	Name    string `json:"name"`
	// Well is the sentence that holds if nothing is found.
	Well string `json:"-"`
}

// question is a Check of values.
type question struct {
	about About
	judge func(f *Facts) ([]Finding, error)
}

func (q question) About() About                      { return q.about }
func (q question) Judge(f *Facts) ([]Finding, error) { return q.judge(f) }

// ask makes a check.
func ask(section, name, well string, judge func(f *Facts) ([]Finding, error)) Check {
	return question{About{section, name, well}, judge}
}

// needing makes a judge of one that needs the settings.
func needing(judge func(f *Facts, s Settings) ([]Finding, error)) func(f *Facts) ([]Finding, error) {
	return func(f *Facts) ([]Finding, error) {
		s, err := settings(f)
		if err != nil {
			return nil, err
		}
		return judge(f, s)
	}
}

// The sections of a report.
const (
	sectionKubernetes   = "Kubernetes"
	sectionInstallation = "Installation"
	sectionRights       = "Rights"
	sectionRegistration = "Registration"
	sectionTemplates    = "Templates"
	sectionNamespaces   = "Namespaces"
	sectionNeighbours   = "Neighbours"
)

// All returns the checks in the order of a report.
func All() []Check {
	return []Check{
		ask(sectionKubernetes, "api-server", "the API server answers, with a version that Pillion supports", apiServer),
		ask(sectionInstallation, "deployment", "Pillion's Deployment is there, and its replicas are available", deploymentAvailable),
		ask(sectionInstallation, "release", "no operation of Helm was interrupted", needing(releaseSettled)),
		ask(sectionInstallation, "service", "Pillion's Service leads to its pods", needing(serviceLeads)),
		ask(sectionInstallation, "replicas", "every replica is ready, and answers with its metrics", needing(replicasReady)),
		ask(sectionInstallation, "versions", "all replicas and this pillion have the same version", needing(sameVersion)),
		ask(sectionInstallation, "caches", "the replicas know what the API server has", needing(cachesCurrent)),
		ask(sectionInstallation, "disruption", "a budget for disruptions lets one replica go at a time", needing(disruptionBudget)),
		ask(sectionInstallation, "network", "no NetworkPolicy keeps API servers from Pillion", needing(networkOpen)),
		ask(sectionRights, "account", "Pillion's service account is there, and API servers accept the replicas' tokens", needing(accountAccepted)),
		ask(sectionRights, "server-rights", "Pillion's service account has the rights that it needs", needing(serverRights)),
		ask(sectionRights, "policies", "the chart's admission policies are there, and deny", needing(policiesThere)),
		ask(sectionRegistration, "configurations", "the webhook configurations are there", needing(configurationsThere)),
		ask(sectionRegistration, "entries", "their entries call Pillion as the chart has it", needing(entriesAsMade)),
		ask(sectionRegistration, "ca-bundles", "their caBundles verify every replica", needing(bundlesVerify)),
		ask(sectionRegistration, "certificates", "no certificate ends soon, and none fails to be replaced", needing(certificatesLast)),
		ask(sectionRegistration, "proof", "pods through the API server have come back injected", needing(proofHolds)),
		ask(sectionTemplates, "crd", "the CRDs of templates are established, and have one stored version", needing(crdSound)),
		ask(sectionTemplates, "templates", "every template compiles, and all replicas apply the same", needing(templatesGood)),
		ask(sectionTemplates, "template-names", "namespaces name only templates that are there", needing(namesKnown)),
		ask(sectionTemplates, "exceptions", "no exception of a required template has ended", needing(exceptionsLast)),
		ask(sectionTemplates, "required-policies", "the admission policies of required templates are as the templates are now", needing(floorsCurrent)),
		ask(sectionNamespaces, "labels", "namespaces that ask for sidecars have the label that API servers need", needing(labelsThere)),
		ask(sectionNamespaces, "labels-by-hand", "no label set by hand contradicts what its namespace asks for", needing(labelsByHand)),
		ask(sectionNamespaces, "dependence", "always: it says how many namespaces and pods depend on Pillion, and what happens while it does not answer", needing(dependence)),
		ask(sectionNeighbours, "injectors", "no other injector adds the same sidecar to a pod", needing(injectorsApart)),
		ask(sectionNeighbours, "autoscalers", "no VerticalPodAutoscaler changes the resources of sidecars", needing(autoscalersApart)),
		ask(sectionNeighbours, "order", "no other webhook changes the same pods after Pillion", needing(lastInOrder)),
		ask(sectionNeighbours, "webhooks", "no other webhook can keep Pillion's pods from starting", needing(webhooksApart)),
	}
}

// Outcome is a check with its result.
type Outcome struct {
	About
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

// Run asks the checks. If the API server does not answer, nothing else can be told.
func Run(checks []Check, f *Facts) Report {
	var r Report
	for _, c := range checks {
		o := Outcome{About: c.About(), Result: OK}
		findings, err := c.Judge(f)
		if err != nil {
			findings = append(findings, unread(err))
		}
		o.Findings = findings
		for _, found := range findings {
			if severity[found.Result] > severity[o.Result] {
				o.Result = found.Result
			}
		}
		r.Outcomes = append(r.Outcomes, o)
		if f.Kubernetes.Err != nil && !isMissingRight(f.Kubernetes.Err) {
			break
		}
	}
	return r
}

// nothingError is the error of a fact that is not looked at.
type nothingError struct{ why string }

func (n nothingError) Error() string { return n.why }

// Nothing returns the error of a fact that is not looked at, for a reason.
func Nothing(format string, args ...any) error { return nothingError{fmt.Sprintf(format, args...)} }

func isMissingRight(err error) bool {
	var missing *rights.MissingError
	return errors.As(err, &missing)
}

// unread returns the finding of something that could not be read.
func unread(err error) Finding {
	var nothing nothingError
	if errors.As(err, &nothing) {
		return Finding{Result: Skipped, Says: err.Error()}
	}
	var missing *rights.MissingError
	if errors.As(err, &missing) {
		return Finding{Result: Skipped, Unseen: true, Says: fmt.Sprintf("not looked at: you lack the right to %s", missing.Right), Remedy: missing.Grant(missing.User)}
	}
	if errors.Is(err, rights.ErrAnonymous) {
		return Finding{Result: Failed, Says: oneLine(err.Error()), Remedy: []string{"kubectl config view --minify"}}
	}
	return Finding{Result: Failed, Says: oneLine(err.Error()), Remedy: []string{"kubectl get --raw '/readyz?verbose'"}}
}

// failed, warning and fine make findings.
func failed(says string, remedy ...string) Finding {
	return Finding{Result: Failed, Says: says, Remedy: remedy}
}

func warning(says string, remedy ...string) Finding {
	return Finding{Result: Warning, Says: says, Remedy: remedy}
}

func fine(says string) Finding { return Finding{Result: OK, Says: says} }
