package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
)

// Session decides about pods, by files or by a cluster.
type Session struct {
	// Compare injects, and compares pods that exist with new ones.
	Compare   drift.Comparer
	Templates *templates.Set
	Prefix    string
	// Values are the installer's.
	Values     map[string]any
	Namespaces Namespaces
	// Live is nil for a session of files.
	Live *Live

	// told has the broken templates that a pod asked for. Its outcome told of the mistakes.
	told map[string]bool
}

// Session returns one for the cluster. Its set is empty where the templates cannot be read.
func (l *Live) Session() *Session {
	set := l.Templates
	if set == nil {
		set = templates.NewSet(nil)
	}
	return &Session{Compare: l.Compare, Templates: set, Prefix: l.Prefix, Values: l.Compile.Values, Namespaces: Namespaces{Fallback: l.Fallback}, Live: l}
}

// Outcome injects into the pod that is created of p, and into p.
func (s *Session) Outcome(ctx context.Context, p workload.Pod) (Foretold, error) {
	ns, _ := s.Namespaces.Of(p.Namespace)
	return s.OutcomeOf(ctx, p.Created(ns.Name), ns, injector.Request{PodTemplate: p.Object})
}

// OutcomeOf injects into a pod that is created now. Of the request it takes what is about the
// answer.
func (s *Session) OutcomeOf(ctx context.Context, created map[string]any, ns templates.Namespace, r injector.Request) (Foretold, error) {
	r.Operation, r.Pod, r.Namespace, r.Templates = "CREATE", created, ns, s.Templates.In(ns.Name)
	out, err := s.Compare.Pipeline.Inject(ctx, r)
	if err != nil {
		return Foretold{}, err
	}
	f := Foretold{Outcome: out}
	for _, t := range out.Templates {
		if t.Code == reason.TemplateBroken {
			if s.told == nil {
				s.told = map[string]bool{}
			}
			s.told[t.Name] = true
		}
	}
	if out.Allowed {
		f.Troubles = Troubles(created, out, s.Namespaces.Limited(ns))
	}
	return f, nil
}

// Troubles returns what refuses a pod after its injection.
func Troubles(created map[string]any, out injector.Outcome, ns predict.Namespace) []predict.Trouble {
	var injected []*templates.Template
	for _, t := range out.Templates {
		if t.Code == reason.Injected {
			injected = append(injected, t.Template())
		}
	}
	return predict.Troubles(predict.Input{Before: created, After: out.Pod, Namespace: ns, Injected: injected})
}

// Foretold is what becomes of a pod.
type Foretold struct {
	injector.Outcome
	// Troubles are what refuses the pod after its injection.
	Troubles []predict.Trouble
}

// Refused reports whether the pod does not come to be.
func (f Foretold) Refused() bool {
	return !f.Allowed || slices.ContainsFunc(f.Troubles, func(t predict.Trouble) bool { return t.Refused })
}

// Unasked returns the mistakes of the broken templates that no pod asked for.
func (s *Session) Unasked() []error {
	var mistakes []error
	for _, e := range s.Templates.All() {
		if e.Err != nil && !s.told[e.Name] {
			mistakes = append(mistakes, e.Err)
		}
	}
	for _, c := range s.Templates.Canaries() {
		if c.Unusable != nil && c.Err == nil {
			mistakes = append(mistakes, fmt.Errorf("canary %s: %w", c.Name, c.Unusable))
		}
	}
	all := s.Templates.Namespaces()
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		for _, e := range all[namespace].Entries() {
			if e.Err != nil && !s.told[e.Name] {
				mistakes = append(mistakes, e.Err)
			}
		}
	}
	return mistakes
}

// Namespaces are those that are known: of files, or of a cluster.
type Namespaces struct {
	// Fallback is the namespace of objects that name none; "" stands for default.
	Fallback string

	// all are by name. That of "" has the limits of objects that name no namespace.
	all map[string]*Namespace
}

// get returns what there is of a namespace, to be changed.
func (n *Namespaces) get(name string) *Namespace {
	if n.all == nil {
		n.all = map[string]*Namespace{}
	}
	if n.all[name] == nil {
		n.all[name] = &Namespace{}
	}
	return n.all[name]
}

// FileNamespaces returns the namespaces among the objects of a file, with their LimitRanges and
// ResourceQuotas. The only one is the fallback where none is given.
func FileNamespaces(objects []map[string]any, fallback string) (Namespaces, error) {
	n := Namespaces{Fallback: fallback}
	var names []string
	for _, object := range objects {
		switch kind, _ := object["kind"].(string); kind {
		case "Namespace":
			ns := injector.NamespaceOf(object)
			if err := workload.CheckMetadata(object); err != nil {
				return n, fmt.Errorf("%s: %w", workload.NameOf(object), err)
			}
			if of := n.get(ns.Name); !of.known {
				names = append(names, ns.Name)
			}
			n.get(ns.Name).Namespace.Namespace, n.get(ns.Name).known = ns, true
		case "LimitRange", "ResourceQuota":
			if err := n.limit(kind, object); err != nil {
				return n, err
			}
		default:
			return n, fmt.Errorf("an object is of kind %q; allowed are Namespace, LimitRange and ResourceQuota", kind)
		}
	}
	if n.Fallback == "" && len(names) == 1 {
		n.Fallback = names[0]
	}
	return n, nil
}

// limit keeps a LimitRange or a ResourceQuota.
func (n *Namespaces) limit(kind string, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	of := n.get(namespace)
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if kind == "LimitRange" {
		of.LimitRanges = append(of.LimitRanges, corev1.LimitRange{})
		err = json.Unmarshal(data, &of.LimitRanges[len(of.LimitRanges)-1])
	} else {
		of.Quotas = append(of.Quotas, corev1.ResourceQuota{})
		err = json.Unmarshal(data, &of.Quotas[len(of.Quotas)-1])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", workload.NameOf(object), err)
	}
	return nil
}

// Keep takes a namespace of the cluster in.
func (n *Namespaces) Keep(ns Namespace) {
	ns.known = ns.Unread == nil
	*n.get(ns.Name) = ns
}

// Of returns the namespace of that name, or the fallback for an object that names none. Known
// reports whether it was read.
func (n Namespaces) Of(name string) (ns templates.Namespace, known bool) {
	if name == "" {
		name = n.Fallback
	}
	if name == "" {
		name = "default"
	}
	if of := n.all[name]; of != nil && of.known {
		return of.Namespace.Namespace, true
	}
	return templates.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}, false
}

// Limited returns a namespace with what limits its pods. An object that names no namespace
// counts for each.
func (n Namespaces) Limited(ns templates.Namespace) predict.Namespace {
	all := predict.Namespace{Namespace: ns}
	for _, name := range []string{"", ns.Name} {
		if of := n.all[name]; of != nil {
			all.LimitRanges, all.Quotas = append(all.LimitRanges, of.LimitRanges...), append(all.Quotas, of.Quotas...)
		}
	}
	return all
}

// unknown says why the annotations of a namespace are not known.
func (n Namespaces) unknown(name string) string {
	if of := n.all[name]; of != nil && of.Unread != nil {
		return "not known: the namespace cannot be read with your rights"
	}
	return "not known: no --namespace-file has it"
}

// Unread reports whether a namespace of the cluster could not be read, and has the notes of all.
func (n Namespaces) Unread() (unread bool, notes []explain.Note) {
	for _, name := range slices.Sorted(maps.Keys(n.all)) {
		unread = unread || n.all[name].Unread != nil
		notes = append(notes, n.all[name].Notes...)
	}
	return unread, notes
}
