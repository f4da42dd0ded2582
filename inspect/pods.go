package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// maxWorkloads bounds the workloads in memory, and maxPods the names of pods of each.
	maxWorkloads = 2000
	maxPods      = 10
)

// PodsReport is the report of status about pods. Its lists are sorted, the worst first.
type PodsReport struct {
	Namespaces []namespaceReport `json:"namespaces"`
	// Workloads are the workloads with pods that are not up to date. For the target of a namespace,
	// they are all compared workloads.
	Workloads []workloadReport `json:"workloads"`
	// PodsOfMoreWorkloads counts the pods of workloads beyond maxWorkloads.
	PodsOfMoreWorkloads int `json:"podsOfMoreWorkloads,omitempty"`
	// Exceptions are the exceptions of required templates, sorted by their ends.
	Exceptions []exceptionReport `json:"exceptions,omitempty"`
	// NotLookedAt counts the pods that are too large to compare.
	NotLookedAt int `json:"notLookedAt,omitempty"`
	// EventsUnknown is the reason why the refusals are not known.
	EventsUnknown string `json:"eventsUnknown,omitempty"`

	// args are the flags that select the installation, for the commands in the report.
	args string
}

// PodCounts has numbers of running pods. UpToDate, Missing, Outdated and WouldBeRefused add up to Pods.
type PodCounts struct {
	Pods     int `json:"pods"`
	UpToDate int `json:"upToDate"`
	Missing  int `json:"missing"`
	Outdated int `json:"outdated"`
	// WouldBeRefused pods could not be created now.
	WouldBeRefused int `json:"wouldBeRefused"`
	// Injected pods have a sidecar. Dropped pods are up to date, and have a sidecar that they would not get now.
	Injected int `json:"injected"`
	Dropped  int `json:"dropped"`
}

func (c PodCounts) outdatedOrMissing() int { return c.Missing + c.Outdated }

// namespaceReport is one namespace.
type namespaceReport struct {
	Name string `json:"name"`
	// Injection is the namespace's label.
	Injection string `json:"injection,omitempty"`
	PodCounts
	// RefusedLately are the refusals in Pillion's events of the namespace. API servers delete events
	// after an hour.
	RefusedLately []refusal `json:"refusedLately,omitempty"`
}

// refusal is the reason why pods were refused.
type refusal struct {
	Reason string    `json:"reason"`
	About  string    `json:"about"`
	Note   string    `json:"note"`
	Last   time.Time `json:"last"`
}

// workloadReport is one workload.
type workloadReport struct {
	Namespace string `json:"namespace"`
	owner.Workload
	PodCounts
	// Templates are the templates that are missing, outdated or refused, by state.
	Templates map[drift.State][]string `json:"templates,omitempty"`
	// OutdatedPods are the first maxPods pods that are not up to date, or would be refused.
	OutdatedPods []podReport `json:"behind,omitempty"`
}

// podReport is a pod that differs from a new one.
type podReport struct {
	Name string `json:"name"`
	Text string `json:"says"`
}

// tally collects a report while the pods are read.
type tally struct {
	target     Target
	namespaces map[string]*namespaceReport
	workloads  map[[3]string]*workloadReport
	// excepted counts pods by template and exception.
	excepted map[[2]string]int
	// skippedPods counts the pods of workloads beyond maxWorkloads.
	skippedPods int
}

// ComparePods compares the pods of the target with new ones. It stores only counters.
func (l *Live) ComparePods(ctx context.Context, of Target) (PodsReport, error) {
	namespaces, err := l.Namespaces(ctx, of.Namespace)
	if err != nil {
		return PodsReport{}, err
	}
	t := tally{target: of, namespaces: map[string]*namespaceReport{}, workloads: map[[3]string]*workloadReport{}, excepted: map[[2]string]int{}}
	for name, ns := range namespaces {
		if of.Template == "" && l.Compare.Registration.Calls(ns, nil) {
			t.namespace(name, ns)
		}
	}
	tooLarge, err := l.Pods.Each(ctx, of.Namespace, func(pod map[string]any) error {
		name, _, _ := unstructured.NestedString(pod, "metadata", "namespace")
		ns, known := namespaces[name]
		if !known {
			return nil // the namespace is newer than the list of namespaces
		}
		s, err := l.Compare.Compare(ctx, pod, ns, l.Templates)
		if err != nil {
			return err
		}
		t.add(pod, ns, s)
		return nil
	})
	if err != nil {
		var missing *rights.MissingError
		if err = rights.Explain(err); errors.As(err, &missing) && missing.Namespace == "" {
			missing.Hint = "For one namespace: pillion status ns/NAME."
		}
		return PodsReport{}, err
	}
	report := t.report()
	report.Exceptions = t.exceptions(l.Templates, time.Now())
	report.NotLookedAt, report.args = tooLarge, l.Args()
	if err := l.refusals(ctx, of.Namespace, &report); err != nil {
		report.EventsUnknown = rights.Explain(err).Error()
	}
	return report, nil
}

// Namespaces returns the namespace with the name, or all for "".
func (l *Live) Namespaces(ctx context.Context, name string) (map[string]templates.Namespace, error) {
	all := map[string]templates.Namespace{}
	add := func(m *metav1.PartialObjectMetadata) {
		annotations := maps.Clone(m.Annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		all[m.Name] = templates.Namespace{Name: m.Name, Labels: m.Labels, Annotations: annotations}
	}
	if name == "" {
		return all, l.EachName(ctx, NamespacesResource, add)
	}
	ns, err := l.Names.Resource(NamespacesResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	add(ns)
	return all, nil
}

// namespace returns the row of a namespace.
func (t *tally) namespace(name string, ns templates.Namespace) *namespaceReport {
	row := t.namespaces[name]
	if row == nil {
		row = &namespaceReport{Name: name, Injection: ns.Labels[v1alpha1.InjectionLabel]}
		t.namespaces[name] = row
	}
	return row
}

// add counts one pod.
func (t *tally) add(pod map[string]any, ns templates.Namespace, s drift.Comparison) {
	if !s.Counts || !s.Called && !s.Injected() {
		return
	}
	t.addExceptions(s)
	if t.target.Template != "" {
		about := s.Template(t.target.Template)
		if about.State == drift.NotAsked {
			return
		}
		s.Templates = []drift.Template{about}
	}
	row := t.namespace(ns.Name, ns)
	row.count(s)
	troubled := s.Behind() || s.Has(drift.Refused)
	if !troubled && t.target.Namespace == "" {
		return
	}
	w := owner.WorkloadOf(pod)
	key := [3]string{ns.Name, w.Kind, w.Name}
	of := t.workloads[key]
	if of == nil {
		if len(t.workloads) >= maxWorkloads {
			t.skippedPods++
			return
		}
		of = &workloadReport{Namespace: ns.Name, Workload: w, Templates: map[drift.State][]string{}}
		t.workloads[key] = of
	}
	of.count(s)
	if !troubled {
		return
	}
	for _, template := range s.Templates {
		if template.State != drift.Missing && template.State != drift.Outdated && template.State != drift.Refused {
			continue
		}
		if names := of.Templates[template.State]; !slices.Contains(names, template.Name) {
			of.Templates[template.State] = append(names, template.Name)
		}
	}
	if len(of.OutdatedPods) < maxPods {
		name, _, _ := unstructured.NestedString(pod, "metadata", "name")
		of.OutdatedPods = append(of.OutdatedPods, podReport{Name: name, Text: describePod(s)})
	}
}

// describePod formats how a pod differs from a new one.
func describePod(s drift.Comparison) string {
	if s.Has(drift.Refused) {
		return fmt.Sprintf("would be refused (%s)", s.Code)
	}
	return explain.FormatDifference(&s)
}

// count counts one pod.
func (c *PodCounts) count(s drift.Comparison) {
	c.Pods++
	if s.Injected() {
		c.Injected++
	}
	switch {
	case s.Has(drift.Refused):
		c.WouldBeRefused++
	case s.Has(drift.Missing):
		c.Missing++
	case s.Has(drift.Outdated):
		c.Outdated++
	default:
		c.UpToDate++
		if s.Has(drift.Dropped) {
			c.Dropped++
		}
	}
}

func (t *tally) report() PodsReport {
	r := PodsReport{Namespaces: []namespaceReport{}, Workloads: []workloadReport{}, PodsOfMoreWorkloads: t.skippedPods}
	for _, row := range t.namespaces {
		r.Namespaces = append(r.Namespaces, *row)
	}
	slices.SortFunc(r.Namespaces, func(a, b namespaceReport) int {
		return cmp.Or(cmp.Compare(b.outdatedOrMissing(), a.outdatedOrMissing()), cmp.Compare(b.WouldBeRefused, a.WouldBeRefused), cmp.Compare(a.Name, b.Name))
	})
	for _, row := range t.workloads {
		for _, names := range row.Templates {
			slices.Sort(names)
		}
		r.Workloads = append(r.Workloads, *row)
	}
	slices.SortFunc(r.Workloads, func(a, b workloadReport) int {
		return cmp.Or(cmp.Compare(b.outdatedOrMissing(), a.outdatedOrMissing()), cmp.Compare(b.WouldBeRefused, a.WouldBeRefused), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.String(), b.String()))
	})
	return r
}

// refusalCodes are the reason codes of refusals.
var refusalCodes = []reason.Code{
	reason.UnknownTemplate, reason.NotAllowedHere, reason.TemplateBroken, reason.BadAnnotation, reason.BadParameter, reason.Conflict,
	reason.ValidationFailed, reason.TemplateTooExpensive, reason.RenderFailed, reason.RequiredMissing,
}

// refusals adds the refusals in Pillion's events. For each object and reason, it adds the last
// event.
func (l *Live) refusals(ctx context.Context, namespace string, report *PodsReport) error {
	found := map[string]map[string]refusal{}
	options := metav1.ListOptions{Limit: coverage.PageSize, FieldSelector: "reportingComponent=pillion"}
	for {
		page, err := l.Objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing events: %w", err)
		}
		for _, e := range page.Items {
			text := func(path ...string) string { v, _, _ := unstructured.NestedString(e.Object, path...); return v }
			code := text("reason")
			if !slices.Contains(refusalCodes, reason.Code(code)) || text("action") == "Admit" {
				continue
			}
			at, _ := time.Parse(time.RFC3339, cmp.Or(text("series", "lastObservedTime"), text("eventTime"), text("lastTimestamp"), text("metadata", "creationTimestamp")))
			about := strings.ToLower(text("involvedObject", "kind")) + "/" + text("involvedObject", "name")
			in := found[e.GetNamespace()]
			if in == nil {
				in = map[string]refusal{}
				found[e.GetNamespace()] = in
			}
			key := code + " " + about
			if last, ok := in[key]; (!ok || at.After(last.Last)) && (ok || len(in) < maxPods) {
				in[key] = refusal{Reason: code, About: about, Note: text("message"), Last: at}
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	for i, row := range report.Namespaces {
		for _, key := range slices.Sorted(maps.Keys(found[row.Name])) {
			report.Namespaces[i].RefusedLately = append(report.Namespaces[i].RefusedLately, found[row.Name][key])
		}
		delete(found, row.Name)
	}
	return nil
}
