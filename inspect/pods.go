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
	// mostWorkloads is how many workloads are kept in memory, and mostPods how many names
	// of pods of each.
	mostWorkloads = 2000
	mostPods      = 10
)

// PodsReport is what status says about pods. Its lists are sorted, the worst first.
type PodsReport struct {
	Namespaces []namespaceReport `json:"namespaces"`
	// Workloads are those with pods that are behind, in a namespace that is asked for all.
	Workloads []workloadReport `json:"workloads"`
	// PodsOfMoreWorkloads are pods of workloads that were left out: there are too many.
	PodsOfMoreWorkloads int `json:"podsOfMoreWorkloads,omitempty"`
	// Exceptions are those of required templates, the first to end first.
	Exceptions []exceptionReport `json:"exceptions,omitempty"`
	// NotLookedAt pods are too large.
	NotLookedAt int `json:"notLookedAt,omitempty"`
	// EventsUnknown says why no refusals are known.
	EventsUnknown string `json:"eventsUnknown,omitempty"`

	// args lead the commands to run next to the same installation.
	args string
}

// Counted are numbers of running pods.
type Counted struct {
	Pods     int `json:"pods"`
	Injected int `json:"injected"`
	Missing  int `json:"missing"`
	Outdated int `json:"outdated"`
	// Dropped pods have a sidecar that they would not get now.
	Dropped int `json:"dropped"`
	// WouldBeRefused pods could not be created now.
	WouldBeRefused int `json:"wouldBeRefused"`
}

func (c Counted) behind() int { return c.Missing + c.Outdated }

// namespaceReport is one namespace.
type namespaceReport struct {
	Name string `json:"name"`
	// Injection is the namespace's label.
	Injection string `json:"injection,omitempty"`
	Counted
	// RefusedLately are what Pillion's events in the namespace tell, which API servers keep
	// for an hour.
	RefusedLately []refusal `json:"refusedLately,omitempty"`
}

// refusal is why pods were refused.
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
	Counted
	// Templates are those that are behind, by state.
	Templates map[drift.State][]string `json:"templates,omitempty"`
	// Behind are the first pods that are behind, or would be refused.
	Behind []podReport `json:"behind,omitempty"`
}

// podReport is one pod that is not as it would be created now.
type podReport struct {
	Name string `json:"name"`
	Says string `json:"says"`
}

// tally gathers a report while the pods come by.
type tally struct {
	of         Target
	namespaces map[string]*namespaceReport
	workloads  map[[3]string]*workloadReport
	// excepted counts pods by template and exception.
	excepted map[[2]string]int
	// left counts the pods of workloads that were left out.
	left int
}

// ComparePods compares the pods that the target is about with new ones. Only counters are kept.
func (l *Live) ComparePods(ctx context.Context, of Target) (PodsReport, error) {
	namespaces, err := l.Namespaces(ctx, of.Namespace)
	if err != nil {
		return PodsReport{}, err
	}
	t := tally{of: of, namespaces: map[string]*namespaceReport{}, workloads: map[[3]string]*workloadReport{}, excepted: map[[2]string]int{}}
	for name, ns := range namespaces {
		if of.Template == "" && l.Compare.Registration.Calls(ns, nil) {
			t.namespace(name, ns)
		}
	}
	tooLarge, err := l.Pods.Each(ctx, of.Namespace, func(pod map[string]any) error {
		name, _, _ := unstructured.NestedString(pod, "metadata", "namespace")
		ns, known := namespaces[name]
		if !known {
			return nil // it is newer than the list of namespaces
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
		if err = rights.Named(err); errors.As(err, &missing) && missing.Namespace == "" {
			missing.Hint = "For one namespace: pillion status ns/NAME."
		}
		return PodsReport{}, err
	}
	report := t.report()
	report.Exceptions = t.exceptions(l.Templates, time.Now())
	report.NotLookedAt, report.args = tooLarge, l.Args()
	if err := l.refusals(ctx, of.Namespace, &report); err != nil {
		report.EventsUnknown = rights.Named(err).Error()
	}
	return report, nil
}

// Namespaces returns the namespace of that name, or all for "".
func (l *Live) Namespaces(ctx context.Context, name string) (map[string]templates.Namespace, error) {
	all := map[string]templates.Namespace{}
	keep := func(m *metav1.PartialObjectMetadata) {
		annotations := maps.Clone(m.Annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		all[m.Name] = templates.Namespace{Name: m.Name, Labels: m.Labels, Annotations: annotations}
	}
	if name == "" {
		return all, l.EachName(ctx, NamespacesResource, keep)
	}
	ns, err := l.Names.Resource(NamespacesResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	keep(ns)
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
	t.except(s)
	if t.of.Template != "" {
		about := s.Template(t.of.Template)
		if about.State == drift.NotAsked {
			return
		}
		s.Templates = []drift.Template{about}
	}
	row := t.namespace(ns.Name, ns)
	row.count(s)
	troubled := s.Behind() || s.Has(drift.Refused)
	if !troubled && t.of.Namespace == "" {
		return
	}
	w := owner.WorkloadOf(pod)
	key := [3]string{ns.Name, w.Kind, w.Name}
	of := t.workloads[key]
	if of == nil {
		if len(t.workloads) >= mostWorkloads {
			t.left++
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
	if len(of.Behind) < mostPods {
		name, _, _ := unstructured.NestedString(pod, "metadata", "name")
		of.Behind = append(of.Behind, podReport{Name: name, Says: says(s)})
	}
}

// says is how a pod that is not as it would be now differs.
func says(s drift.Comparison) string {
	if s.Has(drift.Refused) {
		return fmt.Sprintf("would be refused (%s)", s.Code)
	}
	return explain.Behind(&s)
}

// count counts one pod, once in each column that it belongs to.
func (c *Counted) count(s drift.Comparison) {
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
	case s.Has(drift.Dropped):
		c.Dropped++
	}
}

func (t *tally) report() PodsReport {
	r := PodsReport{Namespaces: []namespaceReport{}, Workloads: []workloadReport{}, PodsOfMoreWorkloads: t.left}
	for _, row := range t.namespaces {
		r.Namespaces = append(r.Namespaces, *row)
	}
	slices.SortFunc(r.Namespaces, func(a, b namespaceReport) int {
		return cmp.Or(cmp.Compare(b.behind(), a.behind()), cmp.Compare(b.WouldBeRefused, a.WouldBeRefused), cmp.Compare(a.Name, b.Name))
	})
	for _, row := range t.workloads {
		for _, names := range row.Templates {
			slices.Sort(names)
		}
		r.Workloads = append(r.Workloads, *row)
	}
	slices.SortFunc(r.Workloads, func(a, b workloadReport) int {
		return cmp.Or(cmp.Compare(b.behind(), a.behind()), cmp.Compare(b.WouldBeRefused, a.WouldBeRefused), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.String(), b.String()))
	})
	return r
}

// refusing are the reason codes with which pods are refused.
var refusing = []reason.Code{
	reason.UnknownTemplate, reason.NotAllowedHere, reason.TemplateBroken, reason.BadAnnotation, reason.BadParameter, reason.Conflict,
	reason.ValidationFailed, reason.TemplateTooExpensive, reason.RenderFailed, reason.RequiredMissing,
}

// refusals adds what Pillion's events tell. Events of the same object and reason count once,
// the last one.
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
			if !slices.Contains(refusing, reason.Code(code)) || text("action") == "Admit" {
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
			if last, ok := in[key]; (!ok || at.After(last.Last)) && (ok || len(in) < mostPods) {
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
