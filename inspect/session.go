package inspect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
)

// Session decides about pods, by files or by a cluster.
type Session struct {
	// Compare injects, and compares pods that exist with new ones.
	Compare    drift.Comparer
	Templates  *templates.Set
	Namespaces Namespaces
	// Live is nil for a session of files.
	Live *Live

	// reported has the broken templates whose mistakes are in the outcome of a pod.
	reported map[string]bool
}

// Session returns a session for the cluster. Its set is empty if the templates cannot be read.
func (l *Live) Session() *Session {
	set := l.Templates
	if set == nil {
		set = templates.NewSet(nil)
	}
	return &Session{Compare: l.Compare, Templates: set, Namespaces: Namespaces{Fallback: l.Fallback}, Live: l}
}

// Outcome injects into the pod that is created from p, and into p itself.
func (s *Session) Outcome(ctx context.Context, p workload.Pod) (injector.Outcome, error) {
	ns, _ := s.Namespaces.Find(p.Namespace)
	return s.OutcomeOf(ctx, p.Created(ns.Name), ns, injector.Request{PodTemplate: p.Object})
}

// OutcomeOf injects into a pod that is created now. The caller sets the fields of the request that
// configure the answer.
func (s *Session) OutcomeOf(ctx context.Context, created map[string]any, ns templates.Namespace, r injector.Request) (injector.Outcome, error) {
	r.Operation, r.Pod, r.Namespace, r.Templates = "CREATE", created, ns, s.Templates.In(ns.Name)
	out, err := s.Compare.Pipeline.Inject(ctx, r)
	if err != nil {
		return injector.Outcome{}, err
	}
	for _, t := range out.Templates {
		if t.Code == reason.TemplateBroken {
			if s.reported == nil {
				s.reported = map[string]bool{}
			}
			s.reported[t.Name] = true
		}
	}
	return out, nil
}

// UnreportedMistakes returns the mistakes of broken templates that no pod requested.
func (s *Session) UnreportedMistakes() []error {
	var mistakes []error
	for _, e := range s.Templates.All() {
		if e.Err != nil && !s.reported[e.Name] {
			mistakes = append(mistakes, e.Err)
		}
	}
	for _, c := range s.Templates.Canaries() {
		if c.Unusable != nil && c.Err == nil {
			mistakes = append(mistakes, fmt.Errorf("canary %s: %w", c.Name, c.Unusable))
		}
	}
	for _, e := range s.Templates.Namespaced() {
		if e.Err != nil && !s.reported[e.Name] {
			mistakes = append(mistakes, e.Err)
		}
	}
	return mistakes
}

// Namespaces are the namespaces of files or of a cluster.
type Namespaces struct {
	// Fallback is the namespace of objects without one; "" stands for default.
	Fallback string

	// all is keyed by name.
	all map[string]*Namespace
}

// get returns a namespace. It adds an empty one if there is none.
func (n *Namespaces) get(name string) *Namespace {
	if n.all == nil {
		n.all = map[string]*Namespace{}
	}
	if n.all[name] == nil {
		n.all[name] = &Namespace{}
	}
	return n.all[name]
}

// FileNamespaces returns the namespaces in a file. If the file has one namespace and there is no fallback, that
// namespace is the fallback.
func FileNamespaces(objects []map[string]any, fallback string) (Namespaces, error) {
	n := Namespaces{Fallback: fallback}
	var names []string
	for _, object := range objects {
		if kind, _ := object["kind"].(string); kind != "Namespace" {
			return n, fmt.Errorf("the file has an object of kind %q; allowed are Namespaces", kind)
		}
		if _, err := workload.Decode[corev1.Namespace](object); err != nil {
			return n, fmt.Errorf("%s: %w", workload.NameOf(object), err)
		}
		ns := injector.NamespaceOf(object)
		of := n.get(ns.Name)
		if !of.hasMetadata {
			names = append(names, ns.Name)
		}
		of.Namespace, of.hasMetadata = ns, true
	}
	if n.Fallback == "" && len(names) == 1 {
		n.Fallback = names[0]
	}
	return n, nil
}

// Add adds a namespace of the cluster.
func (n *Namespaces) Add(ns Namespace) {
	ns.hasMetadata = ns.Unread == nil
	*n.get(ns.Name) = ns
}

// Find returns the namespace with the name, or the fallback for "". known reports whether its
// metadata have been read.
func (n Namespaces) Find(name string) (ns templates.Namespace, known bool) {
	if name == "" {
		name = n.Fallback
	}
	if name == "" {
		name = "default"
	}
	if of := n.all[name]; of != nil && of.hasMetadata {
		return of.Namespace, true
	}
	return templates.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}, false
}

// unknown formats the reason why the annotations of a namespace are not known.
func (n Namespaces) unknown(name string) string {
	if of := n.all[name]; of != nil && of.Unread != nil {
		return "not known: the namespace cannot be read"
	}
	return "not known: no --namespace-file has it"
}

// Unread reports whether one of the namespaces could not be read.
func (n Namespaces) Unread() bool {
	for _, ns := range n.all {
		if ns.Unread != nil {
			return true
		}
	}
	return false
}
