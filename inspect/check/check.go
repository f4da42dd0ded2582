package check

import (
	"cmp"
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
type Check struct {
	About
	// judge returns what it finds; nothing if all is well.
	judge func(f *Facts, s Settings) []Finding
	// needs are the facts without which it cannot tell.
	needs []need
}

// About names a check.
type About struct {
	// Section is the heading that it stands under, Name how scripts find it.
	Section string `json:"section"`
	Name    string `json:"name"`
	// Well is the sentence that holds if nothing is found.
	Well string `json:"-"`
}

// need returns why a fact is not known, or nil.
type need func(f *Facts) error

func asked(f *Facts) error         { return cmp.Or(f.Templates.Err, f.Namespaces.Err) }
func budgets(f *Facts) error       { return f.Budgets.Err }
func denied(f *Facts) error        { return f.Denied.Err }
func deployment(f *Facts) error    { return f.Deployment.Err }
func floors(f *Facts) error        { return f.Floors.Err }
func networks(f *Facts) error      { return f.Networks.Err }
func pods(f *Facts) error          { return f.Pods.Err }
func policies(f *Facts) error      { return f.Policies.Err }
func replicas(f *Facts) error      { return f.Replicas.Err }
func templatesRead(f *Facts) error { return f.Templates.Err }
func webhooks(f *Facts) error      { return f.Webhooks.Err }
func worn(f *Facts) error          { return f.Worn.Err }

func ask(section, name, well string, judge func(f *Facts, s Settings) []Finding, needs ...need) Check {
	return Check{About{section, name, well}, judge, needs}
}

// found asks the check.
func (c Check) found(f *Facts) []Finding {
	for _, need := range c.needs {
		if err := need(f); err != nil {
			return []Finding{unread(err)}
		}
	}
	return c.judge(f, f.Settings.Value)
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
		ask(sectionInstallation, "release", "no operation of Helm was interrupted", releaseSettled, settings),
		ask(sectionInstallation, "service", "Pillion's Service leads to its pods", serviceLeads, settings, deployment),
		ask(sectionInstallation, "replicas", "every replica is ready, and answers with its metrics", replicasReady, settings, replicas),
		ask(sectionInstallation, "versions", "all replicas and this pillion have the same version", sameVersion, settings, answering),
		ask(sectionInstallation, "caches", "the replicas know what the API server has", cachesCurrent, settings, answering),
		ask(sectionInstallation, "disruption", "a budget for disruptions lets one replica go at a time", disruptionBudget, settings, deployment, budgets),
		ask(sectionInstallation, "network", "no NetworkPolicy keeps API servers from Pillion", networkOpen, settings, deployment, networks),
		ask(sectionRights, "account", "Pillion's service account is there, and API servers accept the replicas' tokens", accountAccepted, settings),
		ask(sectionRights, "server-rights", "Pillion's service account has the rights that it needs", serverRights, settings, denied),
		ask(sectionRights, "policies", "the chart's admission policies are there, and deny", policiesThere, settings, policies),
		ask(sectionRegistration, "configurations", "the webhook configurations are there", configurationsThere, settings, webhooks),
		ask(sectionRegistration, "entries", "their entries call Pillion as the chart has it", entriesAsMade, settings, webhooks),
		ask(sectionRegistration, "ca-bundles", "their caBundles verify every replica", bundlesVerify, settings, webhooks),
		ask(sectionRegistration, "certificates", "no certificate ends soon, and none fails to be replaced", certificatesLast, settings, answering),
		ask(sectionRegistration, "proof", "pods through the API server have come back injected", proofHolds, settings),
		ask(sectionTemplates, "crd", "the CRDs of templates are established, and have one stored version", crdSound, settings),
		ask(sectionTemplates, "templates", "every template compiles, and all replicas apply the same", templatesGood, settings, templatesRead),
		ask(sectionTemplates, "template-names", "namespaces name only templates that are there", namesKnown, settings, asked, worn),
		ask(sectionTemplates, "exceptions", "no exception of a required template has ended", exceptionsLast, settings, templatesRead),
		ask(sectionTemplates, "required-policies", "the admission policies of required templates are as the templates are now", floorsCurrent, settings, floors),
		ask(sectionNamespaces, "labels", "namespaces that ask for sidecars have the label that API servers need", labelsThere, settings, asked),
		ask(sectionNamespaces, "labels-by-hand", "no label set by hand contradicts what its namespace asks for", labelsByHand, settings, asked),
		ask(sectionNamespaces, "dependence", "always: it says how many namespaces and pods depend on Pillion, and what happens while it does not answer", dependence, settings, asked, pods),
		ask(sectionNeighbours, "injectors", "no other injector adds the same sidecar to a pod", injectorsApart, settings, webhooks, asked),
		ask(sectionNeighbours, "autoscalers", "no VerticalPodAutoscaler changes the resources of sidecars", autoscalersApart, settings, webhooks),
		ask(sectionNeighbours, "order", "no other webhook changes the same pods after Pillion", lastInOrder, settings, webhooks, asked),
		ask(sectionNeighbours, "webhooks", "no other webhook can keep Pillion's pods from starting", webhooksApart, settings, webhooks),
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
		o := Outcome{About: c.About, Result: OK, Findings: c.found(f)}
		for _, found := range o.Findings {
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

// skipped are the findings of a check that has nothing to look at.
func skipped(why string) []Finding { return []Finding{{Result: Skipped, Says: why}} }

func fine(says string) Finding { return Finding{Result: OK, Says: says} }
