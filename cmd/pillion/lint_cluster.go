package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

const (
	// mostUsers is how many workloads a finding names, and mostReasons how many findings a
	// template has.
	mostUsers   = 10
	mostReasons = 20
)

// templateUsers are what uses templates in a cluster, read with the user's own rights.
type templateUsers struct {
	*inspect.Live
	// changed are the templates as the files have them, by their [templateKey]; old is the set in force.
	changed  map[string]templates.Entry
	old, new *templates.Set
	// canaries are the changed templates that are changed by a canary of the files alone, with the
	// canary's name.
	canaries map[string]string
	// matching are the templates of the files that select pods by their match, and are not in force
	// as they are.
	matching []*templates.Template
	// refused has the workloads that would newly be refused, by the template's key and reason.
	refused map[[2]string]map[string]int
	unread  []string
	// fallback is the namespace of the files' templates of namespaces that name none.
	fallback string
	// now is the time at which the templates of the files decide; zero is the real time.
	now time.Time
}

// users returns what uses templates in the cluster that the flags name, and prints what of its
// settings could not be read.
func (o *offline) users(cmd *cobra.Command) (*templateUsers, error) {
	live, err := o.live(cmd)
	if err != nil {
		return nil, err
	}
	printNotes(cmd, live)
	if live.Templates == nil {
		live.Templates = live.NamespacedTemplates(cmd.Context(), templates.NewSet(nil), live.Compile)
	}
	return &templateUsers{Live: live, now: o.now}, nil
}

// check adds the findings of the rule cluster to the results of lint.
func (u *templateUsers) check(ctx context.Context, documents []lint.Document, results []lint.Result) error {
	u.old, u.refused = u.Templates, map[[2]string]map[string]int{}
	u.change(documents)
	if len(u.changed)+len(u.matching) == 0 {
		return nil
	}
	namespaces, everywhere, err := u.concerned(ctx)
	if err != nil {
		return err
	}
	u.depending(ctx, namespaces, results)
	using := map[string]bool{}
	for name, ns := range namespaces {
		using[name] = !everywhere || u.uses(ns)
	}
	if everywhere {
		if err := u.podsThatAsk(ctx, using); err != nil {
			u.unread = append(u.unread, rights.Named(err).Error())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(using)) {
		ns, known := namespaces[name]
		if !using[name] || !known {
			continue
		}
		if err := u.namespace(ctx, ns); err != nil {
			return err
		}
	}
	u.report(results)
	return nil
}

// concerned reads the namespaces whose pods may get what changed: those whose own templates
// changed, or everywhere all, where one of the cluster did.
func (u *templateUsers) concerned(ctx context.Context) (read map[string]templates.Namespace, everywhere bool, err error) {
	of := map[string]bool{}
	for _, e := range u.changed {
		of[e.Namespace] = true
	}
	if of[""] || len(u.matching) > 0 {
		read, err = u.Namespaces(ctx, "")
		return read, true, err
	}
	read = map[string]templates.Namespace{}
	for name := range of {
		ns, err := u.Namespaces(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			u.unread = append(u.unread, rights.Named(err).Error())
		case err != nil:
			return nil, false, err
		default:
			read[name] = ns[name]
		}
	}
	return read, false, nil
}

// change compiles the templates as the cluster would, and keeps those that are not in force
// as they are.
func (u *templateUsers) change(documents []lint.Document) {
	u.changed, u.canaries = map[string]templates.Entry{}, map[string]string{}
	var canaries []templates.Entry
	for _, d := range documents {
		options := u.Compile
		options.Source, options.FirstLine = d.Source, d.Line
		t, _, err := templates.Compile(d.Manifest, options)
		if err != nil {
			continue // lint has said so
		}
		if scope := t.Scope(); scope.Namespaced {
			u.changeOwn(templates.Entry{Name: t.Name(), Namespace: cmp.Or(scope.Namespace, u.fallback), Template: t})
			continue
		}
		if declared, ok := t.Canary(); ok {
			canaries = append(canaries, templates.Entry{Name: t.Name(), Source: d.Source, Template: t})
			if stable, ok := u.old.Get(declared.Of); ok && stable.Template != nil {
				u.canaries[declared.Of] = t.Name()
			}
			continue
		}
		old, ok := u.old.Get(t.Name())
		same := old.Template != nil && old.Template.Hash() == t.Hash()
		if exceptions := t.Spec().Exceptions; same { // exceptions change no hash, and end
			same = reflect.DeepEqual(old.Template.Spec().Exceptions, exceptions) && (len(exceptions) == 0 || u.now.IsZero())
		}
		if _, _, matches := t.Match(); matches && !same {
			u.matching = append(u.matching, t)
		}
		if !ok || old.Template == nil || same {
			continue // new, broken or unchanged: nothing is newly refused
		}
		u.changed[t.Name()] = templates.Entry{Name: t.Name(), Source: old.Source, Template: t}
	}
	for name := range u.canaries {
		if _, ok := u.changed[name]; ok {
			delete(u.canaries, name)
		} else {
			u.changed[name], _ = u.old.Get(name)
		}
	}
	var entries []templates.Entry
	for _, e := range u.old.All() {
		entries = append(entries, u.newest(e))
	}
	u.new = u.old.WithCluster(append(entries, canaries...)).ReadingNamespaces(func(namespace string) []templates.Entry {
		var own []templates.Entry
		for _, e := range u.old.In(namespace).All() {
			if e.Namespace != "" {
				own = append(own, u.newest(e))
			}
		}
		return own
	})
}

// changeOwn notes a template of a namespace that is in force there in another version.
func (u *templateUsers) changeOwn(e templates.Entry) {
	old, _ := u.old.In(e.Namespace).Get(e.Name)
	if old.Namespace == "" || old.Template == nil || old.Template.Hash() == e.Template.Hash() {
		return // new, shadowed, broken or unchanged: nothing is newly refused
	}
	e.Source = old.Source
	u.changed[templateKey(e)] = e
}

// newest returns a template as the files have it, or as it is.
func (u *templateUsers) newest(e templates.Entry) templates.Entry {
	if changed, ok := u.changed[templateKey(e)]; ok {
		return changed
	}
	return e
}

// changedIn yields the changed templates that pods of a namespace may get.
func (u *templateUsers) changedIn(namespace string) iter.Seq[templates.Entry] {
	return func(yield func(templates.Entry) bool) {
		for _, e := range u.changed {
			if (e.Namespace == "" || e.Namespace == namespace) && !yield(e) {
				return
			}
		}
	}
}

// depending adds which namespaces come to depend on Pillion by each template.
func (u *templateUsers) depending(ctx context.Context, namespaces map[string]templates.Namespace, results []lint.Result) {
	d := dependence{
		rules:  labels.Rules{Prefix: u.Prefix, Excluded: u.Excluded, Enforcement: u.Enforcement},
		proven: true, count: u.Count,
		namespaces: func() iter.Seq[labels.Namespace] {
			return func(yield func(labels.Namespace) bool) {
				for _, ns := range namespaces {
					if !yield(labels.Namespace{Namespace: ns}) {
						return
					}
				}
			}
		},
	}
	for _, t := range u.matching {
		said := d.of(ctx, u.old, templates.NewSet(append(u.old.All(), templates.Entry{Name: t.Name(), Template: t})))
		for i := range results {
			for _, message := range said {
				if r := &results[i]; r.Template == t.Name() && !r.Scope.Namespaced {
					r.Cluster(lint.Note, message)
				}
			}
		}
	}
}

// uses reports whether a namespace gets one of the changed templates without its pods' asking.
func (u *templateUsers) uses(ns templates.Namespace) bool {
	ask := usage.Rules{Prefix: u.Prefix, Excluded: u.Excluded}.Asks(ns)
	for e := range u.changedIn(ns.Name) {
		old, _ := u.old.In(ns.Name).Get(e.Name)
		if slices.Contains(ask.Names, e.Name) || ask.Mode == policy.Default && (old.InjectByDefault() || e.InjectByDefault()) {
			return true
		}
		for _, t := range []*templates.Template{old.Template, e.Template} {
			if selector, _, ok := t.Match(); ok && selector.Matches(k8slabels.Set(ns.Labels)) {
				return true
			}
		}
	}
	return false
}

// podsThatAsk marks the namespaces of pods that name a changed template themselves. Only
// metadata are read.
func (u *templateUsers) podsThatAsk(ctx context.Context, using map[string]bool) error {
	err := u.EachName(ctx, inspect.PodsResource, func(pod *metav1.PartialObjectMetadata) {
		if value, ok := pod.Annotations[templates.InjectKey(u.Prefix)]; ok && u.names(pod.Namespace, value) {
			using[pod.Namespace] = true
		}
	})
	if err != nil {
		return fmt.Errorf("looking for pods that ask for a template themselves: %w", err)
	}
	return nil
}

func (u *templateUsers) names(namespace, value string) bool {
	ask, err := policy.ParseAsk(value, true, policy.Pod)
	if err != nil {
		return false
	}
	for e := range u.changedIn(namespace) {
		if slices.Contains(ask.Names, e.Name) || slices.Contains(ask.Plus, e.Name) || ask.Mode == policy.Default && e.InjectByDefault() {
			return true
		}
	}
	return false
}

// namespace looks at the workloads and the pods of a namespace, and at a plain pod in it.
func (u *templateUsers) namespace(ctx context.Context, ns templates.Namespace) error {
	for _, kind := range owner.Kinds {
		if !kind.Written {
			continue
		}
		err := u.workloads(ctx, kind.GroupVersionResource, ns)
		switch {
		case apierrors.IsForbidden(err):
			u.unread = append(u.unread, rights.Named(err).Error())
		case err != nil:
			return err
		}
	}
	_, err := u.Pods.Each(ctx, ns.Name, func(pod map[string]any) error {
		name, _, _ := unstructured.NestedString(pod, "metadata", "name")
		who := "pod/" + name
		if of := owner.WorkloadOf(pod); of.Kind != "" {
			who = of.String()
		}
		now, err := u.Compare.Compare(ctx, pod, ns, u.old)
		if err != nil || !now.Counts || !now.Called {
			return err
		}
		return u.judge(ctx, ns.Name+" "+who, 1, now.Base, ns)
	})
	switch {
	case apierrors.IsForbidden(err):
		u.unread = append(u.unread, rights.Named(err).Error())
	case err != nil:
		return err
	}
	if u.uses(ns) && u.Compare.Registration.Calls(ns, nil) && !u.hasRefused(ns.Name) {
		return u.judge(ctx, ns.Name+" each new pod", 0, samples.Bundled()[0].Pod, ns)
	}
	return nil
}

// hasRefused reports whether something of a namespace would newly be refused.
func (u *templateUsers) hasRefused(namespace string) bool {
	for _, of := range u.refused {
		for who := range of {
			if strings.HasPrefix(who, namespace+" ") {
				return true
			}
		}
	}
	return false
}

// workloads judges the pods that workloads of a kind would create.
func (u *templateUsers) workloads(ctx context.Context, kind schema.GroupVersionResource, ns templates.Namespace) error {
	options := metav1.ListOptions{Limit: coverage.PageSize}
	for {
		page, err := u.Objects.Resource(kind).Namespace(ns.Name).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s in namespace %s: %w", kind.Resource, ns.Name, err)
		}
		for _, item := range page.Items {
			if metav1.GetControllerOf(&item) != nil {
				continue
			}
			data, err := item.MarshalJSON()
			if err != nil {
				return err
			}
			documents, err := workload.Parse(data)
			if err != nil {
				return fmt.Errorf("reading %s %s/%s: %w", kind.Resource, ns.Name, item.GetName(), err)
			}
			if _, _, err := workload.Change(documents[0].Object, func(p workload.Pod) (map[string]any, error) {
				kind, name, _ := strings.Cut(p.Owner, "/")
				pod := p.Created(ns.Name)
				if annotations, _, _ := unstructured.NestedMap(pod, "metadata", "annotations"); !u.Compare.Registration.Calls(ns, annotations) {
					return p.Object, nil
				}
				return p.Object, u.judge(ctx, ns.Name+" "+strings.ToLower(kind)+"/"+name, 0, pod, ns)
			}); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// judge notes the templates by which a pod is refused with the changed ones, and is not now.
func (u *templateUsers) judge(ctx context.Context, who string, pods int, pod map[string]any, ns templates.Namespace) error {
	now, err := u.refusals(ctx, pod, ns, u.old, time.Time{})
	if err != nil {
		return err
	}
	then, err := u.refusals(ctx, pod, ns, u.new, u.now)
	if err != nil {
		return err
	}
	for _, r := range then {
		if slices.Contains(now, r) {
			continue
		}
		if _, changed := u.changed[r[0]]; !changed {
			own := slices.Sorted(maps.Keys(u.changed))
			i := slices.IndexFunc(own, func(key string) bool { return u.changed[key].Namespace == ns.Name })
			if i < 0 {
				continue
			}
			r = [2]string{own[i], "template " + r[0] + ": " + r[1]} // a required one refuses what it gives
		}
		if u.refused[r] == nil {
			u.refused[r] = map[string]int{}
		}
		u.refused[r][who] += pods
	}
	return nil
}

// refusals are the templates and the reasons by which a pod does not come to be.
func (u *templateUsers) refusals(ctx context.Context, pod map[string]any, ns templates.Namespace, set *templates.Set, now time.Time) ([][2]string, error) {
	out, err := u.Compare.Pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set, Now: now})
	if err != nil {
		return nil, err
	}
	key := func(name string) string {
		if e, ok := set.In(ns.Name).Get(name); ok {
			return templateKey(e)
		}
		return name
	}
	var all [][2]string
	for _, r := range out.Refusals {
		all = append(all, [2]string{key(r.Name), fmt.Sprintf("%s (%s)", r.Why, r.Code)})
	}
	if !out.Allowed {
		return all, nil
	}
	for _, t := range inspect.Troubles(pod, out, predict.Namespace{Namespace: ns}) {
		if t.Refused {
			for _, name := range t.Templates {
				all = append(all, [2]string{key(name), t.Says + ": " + t.Advice})
			}
		}
	}
	return all, nil
}

// report makes findings of what was noted, the reason with the most workloads first.
func (u *templateUsers) report(results []lint.Result) {
	for i := range results {
		r := &results[i]
		name := templateKey(templates.Entry{Name: r.Template, Namespace: r.Scope.Namespace})
		for stable, canary := range u.canaries {
			if canary == name {
				name = stable
			}
		}
		if _, ok := u.changed[name]; !ok {
			continue
		}
		var reasons [][2]string
		for of := range u.refused {
			if of[0] == name {
				reasons = append(reasons, of)
			}
		}
		slices.SortFunc(reasons, func(a, b [2]string) int {
			if n := len(u.refused[b]) - len(u.refused[a]); n != 0 {
				return n
			}
			return strings.Compare(a[1], b[1])
		})
		for n, of := range reasons {
			if n == mostReasons {
				r.Cluster(lint.Error, fmt.Sprintf("%d more reasons for which pods of the cluster would newly be refused", len(reasons)-n))
				break
			}
			r.Cluster(lint.Error, u.sentence(of))
		}
		slices.Sort(u.unread)
		for _, why := range slices.Compact(u.unread) {
			r.Cluster(lint.Warning, "not everything that uses it could be looked at: "+why)
		}
	}
}

func (u *templateUsers) sentence(of [2]string) string {
	users, pods := u.refused[of], 0
	var names []string
	for _, who := range slices.Sorted(maps.Keys(users)) {
		name := strings.Replace(who, " ", "/", 1)
		if n := users[who]; n > 0 {
			name += fmt.Sprintf(" (%d running)", n)
			pods += n
		}
		names = append(names, name)
	}
	counted := fmt.Sprintf("%d users", len(users))
	if len(users) == 1 {
		counted = "one user"
	}
	return fmt.Sprintf("in the cluster it would newly refuse pods of %s (%d running now): %s: %s. Before you apply the template, change their annotations, or let the template still allow them",
		counted, pods, of[1], show.Some(names, mostUsers))
}
