package lint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/ports"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// Error: the template is refused, or pods that get it are.
	Error Severity = "error"
	// Warning: the template works, but probably not as its author means it.
	Warning Severity = "warning"
	// Note: a fact that the author should know.
	Note Severity = "note"
)

// Rule is a kind of finding.
type Rule struct {
	Name     string
	Severity Severity
	// Says is a sentence about the mistake that the rule finds.
	Says string
}

// Rules are all rules, in the order of their names.
var Rules = []Rule{
	{"api", Error, "The API would refuse the pod for a frequent typing mistake. Lint knows words of some fields, keys of labels and annotations, names that stand twice, mounts without a volume, values of a wrong form. That is a small part of what --server finds."},
	{"canary", Error, "A canary cannot stand in for the stable template, so it selects no pods. A warning where the stable template is neither among the files nor in the library."},
	{"compile", Error, "The manifest has a mistake, and no pod ever gets the template."},
	{"conflict", Error, "A pod of yours would be refused: the template cannot be merged into it, or a validation is false for it. A note if it cannot be merged into a bundled pod."},
	{"default-container", Warning, "A sidecar comes before the pod's own containers, so kubectl logs and exec use it by default."},
	{"ephemeral-storage", Warning, "A sidecar has a limit for ephemeral storage, which is that of the whole pod where no other container has one."},
	{"exception-ended", Warning, "An exception of a required template has ended: it lets no new pod go without the template, and can be taken out."},
	{"image-tag", Warning, "An image has no tag or digest, or the tag latest: the program can change without a change of the template."},
	{"init-order", Warning, "A native sidecar starts after the pod's init containers, which the template extends as well."},
	{"init-waits", Warning, "An init container looks like a sidecar without restartPolicy: Always. Pods wait until it ends, which it may never do."},
	{"job-never-finishes", Warning, "A plain container keeps a Job from finishing; a native sidecar (an init container with restartPolicy: Always) does not."},
	{"name-taken", Error, "Two templates have one name. Templates of two namespaces may; one of a namespace may not have that of a template of the cluster."},
	{"namespace-room", Error, "A NamespacedSidecarTemplate would not be in force: it is too large, or its namespace has too many."},
	{"never-starts", Warning, "The kubelet never starts a container of the template in a sample pod: it runs as root, and runAsNonRoot is true. An error for a pod of yours."},
	{"quality-of-service", Warning, "With --pod: the template makes a pod of yours Burstable that is Guaranteed without it."},
	{"open-fields", Warning, "A required template leaves fields of the pod open by which an author can weaken the sidecar. Examples are hostPID and a grace period of 0."},
	{"reference", Warning, "A name that the API accepts and nothing has. Examples are a port of a probe that the container does not have, a ConfigMap or Secret that cannot exist."},
	{"render", Error, "The template fails for a sample pod."},
	{"resources", Warning, "A sidecar has no CPU or memory request, or no memory limit."},
	{"same-place", Warning, "Two templates put a native sidecar first and have the same order, so that their names decide."},
	{"server", Error, "With --server: the API server refuses pods that get the template. A warning if it accepts others."},
	{"text", Warning, "A value is inside a shell script or the text of a configuration, where it can change the meaning."},
	{"untried", Warning, "No sample pod gets the template, so nothing of what it injects was checked. Give a pod that gets it with --pod. A note if only a pod of yours does not get it."},
	{"values", Error, "With -f: the chart refuses a name in library, templates or parameterDefaults."},
	{"warning", Warning, "The manifest has something that is allowed and probably not meant."},
}

// Finding is one mistake, or one fact that the author should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`
	Source   string   `json:"source"`
	Line     int      `json:"line,omitempty"`
	Template string   `json:"template,omitempty"`
	Path     string   `json:"path,omitempty"`
	Message  string   `json:"message"`
	// Pod names the first sample pod that the finding is about, if it is about one.
	Pod string `json:"pod,omitempty"`
}

// String writes the finding in one line: SEVERITY: SOURCE:LINE: template NAME: PATH:
// MESSAGE [RULE].
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Severity, f.Source)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Template != "" {
		b.WriteString("template " + f.Template + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Pod != "" {
		b.WriteString("for the pod " + f.Pod + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", f.Message, f.Rule)
	return b.String()
}

// Document is one manifest of a file.
type Document struct {
	Source string
	templates.Document
}

// Options are the other inputs of [Run]. All may be empty.
type Options struct {
	// Compile has the installer's values.
	Compile templates.Options
	// Samples are the author's own pods, with their annotations. The template must work
	// for each of them. The bundled pods are always used, too.
	Samples []samples.Sample
	// Now is the time by which exceptions of required templates end. Zero: none has.
	Now time.Time
	// Namespace is that of NamespacedSidecarTemplates that name none.
	Namespace string
	// Stable returns a template that canaries may be of beside those of the documents, or nil.
	Stable func(name string) *templates.Template
}

// Result has the findings about one document.
type Result struct {
	Source   string `json:"source"`
	Template string `json:"template,omitempty"`
	// Scope says for which namespaces the template is.
	Scope templates.Scope `json:"-"`
	// Hash is empty if the template did not compile.
	Hash string `json:"hash,omitempty"`
	// Tried is how many sample pods got the template, so that the resulting pod was checked.
	Tried    int       `json:"tried"`
	Findings []Finding `json:"findings"`

	// template is the version that was tried, nil if it does not compile.
	template *templates.Template
}

// Run checks documents, in their order.
func Run(documents []Document, o Options) []Result {
	l := linter{options: o, names: map[name]string{}, counts: map[string]int{}, documents: documents}
	results := make([]Result, len(documents))
	for i, d := range documents {
		results[i] = l.document(d)
	}
	for i := range results {
		l.shadowed(documents[i], &results[i])
	}
	return results
}

// shadowed reports a template of a namespace whose name a template of the cluster has, be it before or
// behind it.
func (l *linter) shadowed(d Document, r *Result) {
	other := l.names[name{name: r.Template}]
	if !r.Scope.Namespaced || other == "" {
		return
	}
	tr := &trial{linter: l, document: d, result: *r}
	path, line := templates.Place(d.Document, "metadata", "name")
	tr.addAt("name-taken", Error, path, line, "a template of the cluster has the name, and counts: "+other+"; rename this one")
	tr.sortFindings()
	*r = tr.result
}

// sortFindings sorts the findings.
func (tr *trial) sortFindings() {
	slices.SortStableFunc(tr.result.Findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
}

// linter has the names and positions of earlier documents.
type linter struct {
	options Options
	names   map[name]string
	first   []placedFirst
	// counts are how many templates namespaces have, by the namespace.
	counts map[string]int
	// documents are all that are checked.
	documents []Document
}

// name is the name of a template in its scope, which only one may have.
type name struct {
	scope templates.Scope
	name  string
}

// placedFirst is a template with a native sidecar before all others.
type placedFirst struct {
	name
	source string
	order  int
}

// trial is the check of one template.
type trial struct {
	*linter
	document Document
	template *templates.Template
	result   Result
	// reasons say why sample pods do not get the template.
	reasons []reason
}

// reason is why some sample pods do not get a template.
type reason struct {
	why  string
	pods []string
}

func (l *linter) document(d Document) Result {
	o := l.options.Compile
	o.Source, o.FirstLine = d.Source, d.Line
	t, warnings, err := templates.Compile(d.Manifest, o)
	tr := &trial{linter: l, document: d, template: t, result: Result{Source: d.Source}}
	for _, w := range warnings {
		tr.addAt("warning", Warning, w.Path, w.Line, w.Message)
	}
	if err != nil {
		tr.addProblems(err)
		return tr.result
	}
	tr.result.Template, tr.result.Scope, tr.result.Hash = t.Name(), l.scope(t.Scope()), t.Hash()
	for i := range tr.result.Findings {
		tr.result.Findings[i].Template = t.Name()
	}
	own := name{tr.result.Scope, t.Name()}
	if other, taken := l.names[own]; taken {
		path, line := templates.Place(d.Document, "metadata", "name")
		tr.addAt("name-taken", Error, path, line, "the name is taken by "+other)
		return tr.result
	}
	l.names[own] = templates.NamedAt(d.Document, d.Source)
	if scope := tr.result.Scope; scope.Namespaced {
		tr.countIn(scope.Namespace)
	}
	for _, w := range t.TextHazards() {
		tr.addAt("text", Warning, w.Path, w.Line, w.Message)
	}
	for i, e := range t.Exceptions() {
		if e.Ended(l.options.Now) {
			path, line := templates.Place(d.Document, "spec", "exceptions", i, "until")
			tr.addAt("exception-ended", Warning, path, line, fmt.Sprintf("the exception %s has ended: take it out, or set a later time", e.Name))
		}
	}
	if tr.canary(t) {
		tr.result.template = tr.template
		tr.checkSamples()
		tr.openFields()
	}
	tr.sortFindings()
	return tr.result
}

// scope returns the scope with the namespace that counts where the manifest names none.
func (l *linter) scope(s templates.Scope) templates.Scope {
	if s.Namespaced {
		s.Namespace = cmp.Or(s.Namespace, l.options.Namespace)
	}
	return s
}

// countIn counts a template of a namespace, which is within the bounds of one or not.
func (tr *trial) countIn(namespace string) {
	tr.counts[namespace]++
	spec, err := Spec(tr.document)
	switch {
	case err != nil:
	case tr.counts[namespace] > templates.MaxInNamespace:
		err = fmt.Errorf("is one too many: a namespace may have %d templates of its own; put two into one, or delete one", templates.MaxInNamespace)
	default:
		err = templates.TooLarge(spec)
	}
	if err != nil {
		path, line := templates.Place(tr.document.Document, "metadata", "name")
		tr.addAt("namespace-room", Error, path, line, err.Error())
	}
}

// Spec returns a manifest's spec as JSON.
func Spec(d Document) (json.RawMessage, error) {
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(d.Manifest, &object); err != nil {
		return nil, fmt.Errorf("reading its spec: %w", err)
	}
	return object.Spec, nil
}

func (tr *trial) addProblems(err error) {
	var mistakes *templates.CompileError
	if !errors.As(err, &mistakes) {
		tr.addAt("compile", Error, "", 0, err.Error())
		return
	}
	tr.result.Template, tr.result.Scope = mistakes.Template, tr.scope(mistakes.Scope)
	for i := range tr.result.Findings {
		tr.result.Findings[i].Template = mistakes.Template
	}
	for _, p := range mistakes.Problems {
		tr.addAt("compile", Error, p.Path, p.Line, p.Message)
	}
}

// addAt adds a finding, once.
func (tr *trial) addAt(rule string, severity Severity, path string, line int, message string) {
	tr.add(Finding{Severity: severity, Rule: rule, Path: path, Line: line, Message: message})
}

func (tr *trial) add(f Finding) {
	f.Source, f.Template = tr.result.Source, tr.result.Template
	same := func(g Finding) bool {
		return g.Rule == f.Rule && g.Severity == f.Severity && g.Path == f.Path && g.Line == f.Line && g.Message == f.Message
	}
	if !slices.ContainsFunc(tr.result.Findings, same) {
		tr.result.Findings = append(tr.result.Findings, f)
	}
}

// warn adds a warning about a part of the fragment: the item of that name in a list,
// or the nearest place that the manifest has.
func (tr *trial) warn(rule, message, list, name string, more ...any) {
	path, line := tr.placeOf(list, name, more...)
	tr.addAt(rule, Warning, path, line, message)
}

// placeOf returns the place of an item of a list of the fragment, or of a part of it. Without a list it is that of
// the fragment.
func (tr *trial) placeOf(list, name string, more ...any) (path string, line int) {
	steps := []any{"spec", "inject"}
	if list != "" {
		steps = append(steps, "spec", list)
		if i := tr.index(list, name); i >= 0 {
			steps = append(append(steps, i), more...)
		}
	}
	return templates.Place(tr.document.Document, steps...)
}

// severityFor returns Error for a pod of the author's own, which must work, and Warning for a bundled one.
func (tr *trial) severityFor(s samples.Sample) Severity {
	if slices.ContainsFunc(tr.options.Samples, func(o samples.Sample) bool { return o.Name == s.Name }) {
		return Error
	}
	return Warning
}

// index returns the index of the item of a name in a list of the manifest's fragment,
// or -1 if the manifest does not show it.
func (tr *trial) index(list, name string) int {
	var fragment struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	var items []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(tr.template.Spec().Inject, &fragment) != nil || json.Unmarshal(fragment.Spec[list], &items) != nil {
		return -1
	}
	for i := range items {
		if items[i].Name == name {
			return i
		}
	}
	if len(items) == 1 && strings.Contains(items[0].Name, "${") {
		return 0
	}
	return -1
}

// checkSamples renders the template for every sample pod, and checks the resulting pods.
func (tr *trial) checkSamples() {
	for _, s := range samples.Bundled() {
		if tr.template.OtherSystem(s.Pod) != "" {
			continue
		}
		got := false
		why := ""
		for _, all := range []bool{false, true} {
			rendered, err := tr.template.RenderExample(templates.Input{Pod: s.Pod, Namespace: s.Namespace}, all)
			if err != nil {
				tr.addFailure(s, err)
				why = cmp.Or(why, "the template fails for it")
				continue
			}
			not := tr.sample(s, rendered)
			got, why = got || not == "", cmp.Or(why, not)
		}
		tr.count(s, got, why)
	}
	for _, s := range tr.options.Samples {
		if why := tr.template.OtherSystem(s.Pod); why != "" {
			tr.add(Finding{Severity: Note, Rule: "untried", Pod: s.Name, Message: "does not get it: " + why})
			tr.count(s, false, why)
			continue
		}
		rendered, err := tr.template.RenderExample(templates.Input{Pod: s.Pod, Namespace: s.Namespace}, false)
		if err != nil {
			tr.addFailure(s, err)
			continue
		}
		for _, v := range rendered.Invalid {
			tr.add(Finding{Severity: Error, Rule: "conflict", Pod: s.Name, Message: "would be refused: " + v.Message})
		}
		why := tr.sample(s, rendered)
		if rendered.Unmet != nil {
			tr.add(Finding{Severity: Note, Rule: "untried", Pod: s.Name, Message: "does not get it: " + why})
		}
		tr.count(s, why == "", why)
	}
	tr.addUntried()
}

// count counts a sample pod that got the template, or records why it did not.
func (tr *trial) count(s samples.Sample, got bool, why string) {
	if got {
		tr.result.Tried++
		return
	}
	if i := slices.IndexFunc(tr.reasons, func(p reason) bool { return p.why == why }); i >= 0 {
		tr.reasons[i].pods = append(tr.reasons[i].pods, s.Name)
		return
	}
	tr.reasons = append(tr.reasons, reason{why: why, pods: []string{s.Name}})
}

// addUntried reports a template that no sample pod gets. Where it fails for a pod, that is
// reported already.
func (tr *trial) addUntried() {
	if tr.result.Tried > 0 || slices.ContainsFunc(tr.result.Findings, func(f Finding) bool { return f.Severity == Error }) {
		return
	}
	var parts []string
	field := "inject"
	for _, p := range tr.reasons {
		parts = append(parts, fmt.Sprintf("%s (%s)", p.why, strings.Join(p.pods, ", ")))
		if strings.HasPrefix(p.why, "the matchCondition") {
			field = "matchConditions"
		}
	}
	path, line := templates.Place(tr.document.Document, "spec", field)
	tr.addAt("untried", Warning, path, line, "no sample pod gets the template, so nothing that it injects was checked: "+strings.Join(parts, "; ")+". Give a pod that gets it: pillion lint … --pod FILE")
}

func (tr *trial) addFailure(s samples.Sample, err error) {
	if errors.Is(err, templates.ErrNoExample) {
		return // the compiler has warned already
	}
	f := Finding{Severity: Error, Rule: "render", Pod: s.Name, Message: err.Error()}
	var failed *templates.RenderError
	if errors.As(err, &failed) {
		f.Path, f.Line, f.Message = failed.Path, failed.Line, failed.Message
		if failed.TooExpensive {
			f.Message = "too expensive: " + f.Message
		}
	}
	tr.add(f)
}

// sample merges a template's fragment into one pod and checks the resulting pod. It returns
// why the pod does not get the template, or "".
func (tr *trial) sample(s samples.Sample, rendered *templates.Rendered) (why string) {
	if why := exclusion(rendered); why != "" {
		return why
	}
	merged, err := injector.MergeAlone(tr.template, s.Pod, rendered)
	if err != nil {
		tr.addConflicts(s, err)
		return "it would be refused"
	}
	tr.injected(s, merged, rendered.Fragment)
	return ""
}

// exclusion returns why a pod does not get a template that was rendered for it, "" if it does.
func exclusion(rendered *templates.Rendered) string {
	switch {
	case rendered.Unmet != nil:
		return fmt.Sprintf("the matchCondition %q is false: %s", rendered.Unmet.Name, rendered.Unmet.Expression)
	case len(rendered.Invalid) > 0:
		return fmt.Sprintf("the validation %q is false", rendered.Invalid[0].Name)
	case rendered.Fragment == nil:
		return "there is nothing to inject"
	}
	return ""
}

// InjectSamples returns the sample pods that get a template, before and after the merge. It returns an error if
// the template can be merged into no pod at all.
func InjectSamples(t *templates.Template, pods []samples.Sample) ([]oracle.Pod, error) {
	var injected []oracle.Pod
	var mistake error
	for _, s := range pods {
		if t.OtherSystem(s.Pod) != "" {
			continue
		}
		rendered, err := t.RenderExample(templates.Input{Pod: s.Pod, Namespace: s.Namespace}, false)
		if err != nil || exclusion(rendered) != "" {
			continue
		}
		pod, err := injector.MergeAlone(t, s.Pod, rendered)
		switch {
		case err == nil:
			injected = append(injected, oracle.Pod{Name: s.Name, Before: s.Pod, After: pod})
		case !isMisfit(err):
			mistake = err
		}
	}
	if len(injected) > 0 {
		return injected, nil
	}
	return nil, mistake
}

// isMisfit reports whether a merge failed because of a value of the pod.
func isMisfit(err error) bool {
	var conflict *merge.Conflict
	var clashing *ports.Clash
	return errors.As(err, &conflict) || errors.As(err, &clashing) || errors.Is(err, merge.ErrNothingToExtend)
}

// addConflicts reports that a template does not fit a pod. For a bundled pod that is a
// note: the author may mean it.
func (tr *trial) addConflicts(s samples.Sample, err error) {
	severity := Error
	if isMisfit(err) && !slices.ContainsFunc(tr.options.Samples, func(o samples.Sample) bool { return o.Name == s.Name }) {
		severity = Note
	}
	tr.add(Finding{Severity: severity, Rule: "conflict", Pod: s.Name, Message: "would be refused: " + err.Error()})
}
