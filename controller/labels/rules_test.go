package labels

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const key = "pillion.dev/required"

// required is a set with one template that is required for a team.
func required(t *testing.T, team string) *templates.Set {
	t.Helper()
	return templatestest.Specs(t, map[string]string{"audit": "{required: true, match: {namespaceSelector: {matchLabels: {team: " + team + "}}}, inject: {metadata: {labels: {a: b}}}}"})
}

func namespace(name string, labels ...string) Namespace {
	ns := Namespace{Namespace: templates.Namespace{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		ns.Labels[k] = v
	}
	return ns
}

// of returns the changes of one label.
func of(key string, changes []Change) []Change {
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Key != key })
}

// said returns the new value of the only label that changes, "-" if it is taken off, and ""
// if none changes.
func said(changes []Change) string {
	switch {
	case len(changes) == 0:
		return ""
	case len(changes) > 1:
		return fmt.Sprint(changes)
	case changes[0].TakesOff():
		return "-"
	default:
		return changes[0].Value
	}
}

func TestTheLabelIsWhatTheRequiredTemplatesSelect(t *testing.T) {
	type judge struct {
		Rules
		set *templates.Set
	}
	payments := judge{Rules{Excluded: []string{"kube-system"}}, required(t, "payments")}
	none := judge{Rules{}, templates.NewSet(nil)}
	for why, c := range map[string]struct {
		by   judge
		ns   Namespace
		want string // the label's new value, "-" if it is taken off, "" if it stays
	}{
		"selected":                        {payments, namespace("shop", "team=payments"), "true"},
		"selected and labelled":           {payments, namespace("shop", "team=payments", key+"=true"), ""},
		"selected, with another value":    {payments, namespace("shop", "team=payments", key+"=false"), "true"},
		"selected, with an empty value":   {payments, namespace("shop", "team=payments", key+"="), "true"},
		"not selected":                    {payments, namespace("shop", "team=web"), ""},
		"not selected, labelled":          {payments, namespace("shop", "team=web", key+"=true"), "-"},
		"not selected, with an empty one": {payments, namespace("shop", key+"="), "-"},
		"no labels at all":                {payments, Namespace{Namespace: templates.Namespace{Name: "shop"}}, ""},
		"excluded":                        {payments, namespace("kube-system", "team=payments"), ""},
		"excluded, labelled":              {payments, namespace("kube-system", key+"=true"), ""},
		"no templates":                    {none, namespace("shop", key+"=true"), "-"},
	} {
		if got := said(of(v1alpha1.RequiredLabel, c.by.Changes(c.by.set, false, c.ns))); got != c.want {
			t.Errorf("%s: %q, want %q", why, got, c.want)
		}
	}
}

// apply returns the namespace after the changes.
func apply(ns Namespace, changes []Change) Namespace {
	ns.Labels = maps.Clone(ns.Labels)
	for _, c := range changes {
		if c.TakesOff() {
			delete(ns.Labels, c.Key)
		} else {
			ns.Labels[c.Key] = c.Value
		}
	}
	return ns
}

// random returns a set of templates that select by a few labels, and namespaces with them.
func random(t *testing.T, r *rand.Rand) (*templates.Set, func() Namespace) {
	t.Helper()
	var manifests []string
	for i := range 1 + r.IntN(3) {
		spec := fmt.Sprintf("{required: %t, suspend: %t, ", r.IntN(3) > 0, r.IntN(4) == 0)
		if r.IntN(3) == 0 {
			spec += "ordr: 1, " // a mistake
		}
		if r.IntN(5) == 0 {
			spec += "availableTo: {namespaceSelector: {matchLabels: {b: '1'}}}, "
		}
		spec += fmt.Sprintf("match: {namespaceSelector: {matchLabels: {%c: '%d'}}}, inject: {spec: {containers: [{name: side-%d, image: 'x:1'}]}}}", 'a'+rune(r.IntN(3)), r.IntN(2), i)
		manifests = append(manifests, templatestest.Manifest(fmt.Sprint("t", i), spec))
	}
	return templatestest.Any(t, manifests...), func() Namespace {
		ns := namespace("shop")
		for _, l := range []string{"a", "b", "c"} {
			if n := r.IntN(3); n < 2 {
				ns.Labels[l] = fmt.Sprint(n)
			}
		}
		switch r.IntN(4) {
		case 0:
			ns.Labels[key] = "true"
		case 1:
			ns.Labels[key] = "no"
		}
		return ns
	}
}

// Where Pillion wants no label, verifying could refuse nothing: no pod is missed.
func TestWithoutTheLabelThereIsNothingToVerify(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pipeline := injector.NewPipeline(injector.Config{})
	refused := 0
	for range 150 {
		set, next := random(t, r)
		ns := next()
		ns = apply(ns, Rules{}.Changes(set, false, ns))
		pod, err := injector.DecodePod([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}`))
		errtest.ExpectNone(t, err)
		out, err := pipeline.Verify(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns.Namespace, Templates: set})
		errtest.ExpectNone(t, err)
		if out.Allowed {
			continue
		}
		refused++
		if ns.Labels[key] != "true" {
			t.Fatalf("a namespace with the labels %v has no label, and its pods are refused: %s", ns.Labels, out.Message)
		}
	}
	if refused < 15 {
		t.Errorf("%d pods were refused, so that this test shows little", refused)
	}
}

// One change settles a namespace, and a write never ends with less than is needed.
func TestAChangeSettlesANamespace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		set, next := random(t, r)
		rules, proven := Rules{Enforcement: EnforceAsked}, r.IntN(2) == 0
		ns := next()
		if left := rules.Changes(set, proven, apply(ns, rules.Changes(set, proven, ns))); len(left) != 0 {
			t.Fatalf("after its changes a namespace with the labels %v still wants %v", ns.Labels, left)
		}
		inWrite := rules.ChangesInWrite(set, proven, ns, Namespace{})
		if slices.ContainsFunc(inWrite, Change.TakesOff) {
			t.Fatalf("a write takes a label off: %v", inWrite)
		}
		after := apply(ns, inWrite)
		if again := rules.ChangesInWrite(set, proven, after, ns); len(again) != 0 {
			t.Fatalf("a write that was corrected is corrected again: %v", again)
		}
		for _, c := range rules.Changes(set, proven, after) {
			if !c.TakesOff() && c.Value != v1alpha1.InjectionEnforced {
				t.Fatalf("after a write the namespace with the labels %v lacks %v", after.Labels, c)
			}
		}
	}
}

const injection = "pillion.dev/injection"

// mixed is a set with a template that is required for payments, one that selects web, and one
// that selects sales and is suspended.
func mixed(t *testing.T) *templates.Set {
	t.Helper()
	specs := map[string]string{"audit": "required: true, TEAM: payments", "logs": "TEAM: web", "old": "suspend: true, TEAM: sales"}
	for name, spec := range specs {
		specs[name] = regexp.MustCompile(`TEAM: (.*)`).ReplaceAllString("{"+spec, "match: {namespaceSelector: {matchLabels: {team: $1}}}, inject: {metadata: {labels: {a: b}}}}")
	}
	return templatestest.Specs(t, specs)
}

func TestInjectionFollowsWhatTheNamespaceAsksFor(t *testing.T) {
	set := mixed(t)
	ns := func(inject string, labels ...string) Namespace {
		n := namespace("shop", labels...)
		if inject != "" {
			n.Annotations = map[string]string{"pillion.dev/inject": strings.TrimSpace(inject)}
		}
		return n
	}
	type when struct {
		proven bool
		Enforcement
	}
	open, required, asked, none := when{false, EnforceAsked}, when{true, ""}, when{true, EnforceAsked}, when{true, EnforceNone}
	const enabled, enforced, disabled = injection + "=enabled", injection + "=enforced", injection + "=disabled"
	for why, c := range map[string]struct {
		ns   Namespace
		when when
		want string
	}{
		"never asked":                              {ns(""), asked, ""},
		"asks":                                     {ns("logs"), open, "enabled"},
		"asks for what there is not":               {ns("nothing"), open, "enabled"},
		"asks for true":                            {ns("true"), open, "enabled"},
		"asks in a way that nobody understands":    {ns("a b"), open, "enabled"},
		"asks with an empty value":                 {ns(" "), open, "enabled"},
		"says false":                               {ns("false"), asked, ""},
		"says false and is selected":               {ns("false", "team=web"), asked, ""},
		"says false, and a template is required":   {ns("false", "team=payments"), open, "enabled"},
		"is selected":                              {ns("", "team=web"), open, "enabled"},
		"is selected by a required template":       {ns("", "team=payments"), open, "enabled"},
		"is selected by a suspended template":      {ns("", "team=sales"), open, ""},
		"asks, Required":                           {ns("logs"), required, "enabled"},
		"asks, Asked":                              {ns("logs"), asked, "enforced"},
		"asks, None":                               {ns("logs"), none, "enabled"},
		"is selected, Required":                    {ns("", "team=web"), required, "enabled"},
		"is selected, Asked":                       {ns("", "team=web"), asked, "enabled"},
		"is selected and asks, Asked":              {ns("logs", "team=web"), asked, "enforced"},
		"is selected, and was enforced":            {ns("", "team=web", enforced), asked, "enabled"},
		"required, Required":                       {ns("", "team=payments"), required, "enforced"},
		"required, Asked":                          {ns("", "team=payments"), asked, "enforced"},
		"required, None":                           {ns("", "team=payments"), none, "enabled"},
		"required and asks, Required":              {ns("logs", "team=payments"), required, "enforced"},
		"required and says false, Required":        {ns("false", "team=payments"), required, "enforced"},
		"required and enforced, not proven yet":    {ns("", "team=payments", enforced), when{}, ""},
		"was enforced, None":                       {ns("", "team=payments", enforced), none, "enabled"},
		"asks and was enforced, Required":          {ns("logs", enforced), required, "enabled"},
		"asks and enabled, Asked":                  {ns("logs", enabled), asked, "enforced"},
		"asks and enforced, Asked":                 {ns("logs", enforced), asked, ""},
		"asks and enforced, not proven yet":        {ns("logs", enforced), open, ""},
		"asks no more":                             {ns("", enabled), open, "-"},
		"asks no more, enforced":                   {ns("", enforced), asked, "-"},
		"asks no more, enforced by hand":           {byHand(ns("", enforced), injection), asked, ""},
		"asks, enabled by hand":                    {byHand(ns("logs", enabled), injection), asked, ""},
		"asks, enforced by hand, None":             {byHand(ns("logs", enforced), injection), none, ""},
		"asks, disabled":                           {byHand(ns("logs", disabled), injection), asked, ""},
		"required, disabled":                       {byHand(ns("", "team=payments", disabled), injection), asked, ""},
		"asks, disabled, and nobody owns it":       {ns("logs", disabled), asked, ""},
		"asks no more, disabled, nobody owns it":   {ns("", disabled), asked, ""},
		"an empty value by hand":                   {byHand(ns("logs", injection+"="), injection), open, ""},
		"an empty value that nobody owns":          {ns("logs", injection+"="), open, "enabled"},
		"an empty value that nobody owns or needs": {ns("", injection+"="), open, "-"},
	} {
		rules := Rules{Excluded: []string{"kube-system"}, Enforcement: c.when.Enforcement}
		if got := said(of(injection, rules.Changes(set, c.when.proven, c.ns))); got != c.want {
			t.Errorf("%s: %q, want %q", why, got, c.want)
		}
		excluded := c.ns
		excluded.Name = "kube-system"
		if got := rules.Changes(set, c.when.proven, excluded); len(got) != 0 {
			t.Errorf("%s, in an excluded namespace: %v", why, got)
		}
		// A write of somebody else's puts on enabled where nothing is, and changes no value.
		wantInWrite := ""
		if wanted := rules.injection(set, c.when.proven, c.ns); wanted != "" && c.ns.Labels[injection] == "" && c.ns.ByHand == nil {
			wantInWrite = "enabled"
		}
		if got := said(of(injection, rules.ChangesInWrite(set, c.when.proven, c.ns, Namespace{}))); got != wantInWrite {
			t.Errorf("%s, in a write: %q, want %q", why, got, wantInWrite)
		}
	}
}

// In enabled namespaces pods are created without their sidecars while Pillion is away. So a write
// that drops what Pillion enforced does not open a namespace.
func TestAWriteThatDropsWhatPillionEnforcedGetsItBack(t *testing.T) {
	set := mixed(t)
	asks := func(labels ...string) Namespace {
		n := namespace("shop", labels...)
		n.Annotations = map[string]string{"pillion.dev/inject": "logs"}
		return n
	}
	forged := func(ns Namespace) Namespace {
		ns.Forged = []string{injection}
		return ns
	}
	const enabled, enforced, disabled = injection + "=enabled", injection + "=enforced", injection + "=disabled"
	for why, c := range map[string]struct {
		ns, before  Namespace
		enforcement Enforcement
		want        string
	}{
		"enforced by Pillion":                          {asks(), asks(enforced), EnforceAsked, "enforced"},
		"enforced by Pillion, with an empty value now": {asks(injection + "="), asks(enforced), EnforceAsked, "enforced"},
		"enforced by Pillion, by an older setting":     {asks(), asks(enforced), EnforceRequired, "enabled"},
		"enforced by Pillion, which enforces nothing":  {asks(), asks(enforced), EnforceNone, "enabled"},
		"enforced, and asks no more":                   {namespace("shop"), asks(enforced), EnforceAsked, ""},
		"enforced by hand":                             {asks(), byHand(asks(enforced), injection), EnforceAsked, "enabled"},
		"enforced in Pillion's name":                   {asks(), forged(asks(enforced)), EnforceAsked, "enabled"},
		"enforced, and enabled in this write":          {asks(enabled), asks(enforced), EnforceAsked, ""},
		"enforced, and disabled in this write":         {asks(disabled), asks(enforced), EnforceAsked, ""},
		"enabled":                                      {asks(), asks(enabled), EnforceAsked, "enabled"},
		"disabled":                                     {asks(), asks(disabled), EnforceAsked, "enabled"},
		"not there before":                             {asks(), Namespace{}, EnforceAsked, "enabled"},
	} {
		for _, proven := range []bool{false, true} {
			if got := said((Rules{Enforcement: c.enforcement}).ChangesInWrite(set, proven, c.ns, c.before)); got != c.want {
				t.Errorf("%s, proven %t: %q, want %q", why, proven, got, c.want)
			}
		}
	}
}

// Where Pillion wants no label, nothing is injected unless the pod asks itself.
func TestWithoutTheLabelNothingIsInjected(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pipeline := injector.NewPipeline(injector.Config{})
	pod, err := injector.DecodePod([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}`))
	errtest.ExpectNone(t, err)
	touched := 0
	for range 300 {
		set, next := random(t, r)
		ns := next()
		if inject := []string{"", "true", "false", "t0", "t9", "t0,t1", "a b"}[r.IntN(7)]; inject != "" {
			ns.Annotations = map[string]string{"pillion.dev/inject": inject}
		}
		out, err := pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns.Namespace, Templates: set})
		errtest.ExpectNone(t, err)
		// Who suspends a required template has its pods left alone: the warning is for those
		// that another template brings here.
		if out.Allowed && len(out.Operations) == 0 && !slices.ContainsFunc(out.Templates, func(o injector.TemplateOutcome) bool { return o.Code != reason.Suspended }) {
			continue
		}
		touched++
		if got := said(of(injection, (Rules{}).Changes(set, false, ns))); got != "enabled" {
			t.Fatalf("the label of a namespace with the labels %v and the annotations %v is %q, and its pods are touched: %+v", ns.Labels, ns.Annotations, got, out)
		}
	}
	if touched < 50 {
		t.Errorf("%d pods were touched, so that this test shows little", touched)
	}
}

// Who writes under Pillion's name is not Pillion, and no hand either: such a label is a conflict,
// which is told.
func TestWhoTakesPillionsNameIsNotPillion(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + injection + `":{}}}}`)}
	}
	for why, c := range map[string]struct {
		entry        metav1.ManagedFieldsEntry
		hand, forged bool
	}{
		"Pillion's apply":           {entry("pillion.dev", "Apply", ""), false, false},
		"an update in its name":     {entry("pillion.dev", "Update", ""), false, true},
		"an apply on a subresource": {entry("pillion.dev", "Apply", "status"), false, true},
		"a hand":                    {entry("kubectl-label", "Update", ""), true, false},
		"another prefix":            {entry("side.example.com", "Apply", ""), true, false},
		"nobody that is known":      {entry("before-first-apply", "Update", ""), false, false},
	} {
		ns := &metav1.ObjectMeta{Labels: map[string]string{injection: "enabled"}, ManagedFields: []metav1.ManagedFieldsEntry{c.entry}}
		if got := len(ByHand(ns, []string{injection})) > 0; got != c.hand {
			t.Errorf("%s: set by hand: %t, want %t", why, got, c.hand)
		}
		if _, got := FindForgedEntry(ns, injection); got != c.forged {
			t.Errorf("%s: in Pillion's name: %t, want %t", why, got, c.forged)
		}
	}
}

// Names of fields in capital letters are those of other fields.
func TestAHandSetsALabelByItsExactName(t *testing.T) {
	for fields, want := range map[string]bool{
		`{"f:metadata":{"f:labels":{"f:LABEL":{}}}}`:                              true,
		`{"f:metadata":{"f:labels":{"f:LABEL":{}}},"f:Metadata":{"f:labels":{}}}`: true,
		`{"F:METADATA":{"f:labels":{"f:LABEL":{}}}}`:                              false,
		`{"f:metadata":{"f:Labels":{"f:LABEL":{}}}}`:                              false,
		`{"f:metadata":{"f:labels":{"F:LABEL":{}}}}`:                              false,
	} {
		entry := metav1.ManagedFieldsEntry{Manager: "kubectl-label", Operation: "Update", FieldsV1: metav1.NewFieldsV1(strings.ReplaceAll(fields, "LABEL", injection))}
		ns := &metav1.ObjectMeta{Labels: map[string]string{injection: "enabled"}, ManagedFields: []metav1.ManagedFieldsEntry{entry}}
		if got := len(ByHand(ns, []string{injection})) > 0; got != want {
			t.Errorf("%s: set by hand: %t, want %t", fields, got, want)
		}
	}
}

// One apply has all that Pillion owns: what it leaves out, the API server takes off.
func TestAnApplyHasAllLabelsOfPillionsAndNoHands(t *testing.T) {
	put := []Change{{Key: key, Value: "true"}}
	for why, c := range map[string]struct {
		ns      Namespace
		changes []Change
		want    map[string]string
	}{
		"nothing there":                {namespace("shop"), put, map[string]string{key: "true"}},
		"the other label is Pillion's": {namespace("shop", "team=web", injection+"=enforced"), put, map[string]string{key: "true", injection: "enforced"}},
		"the other label is a hand's":  {byHand(namespace("shop", injection+"=disabled"), injection), put, map[string]string{key: "true"}},
		"the label is a hand's":        {byHand(namespace("shop", key+"=no", injection+"=enabled"), key), put, map[string]string{key: "true", injection: "enabled"}},
		"both":                         {namespace("shop", injection+"=enabled"), append(put, Change{Key: injection, Value: "enforced", From: "enabled"}), map[string]string{key: "true", injection: "enforced"}},
	} {
		if got := (Rules{}).Applied(c.ns, c.changes); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", why, got, c.want)
		}
	}
}

func byHand(ns Namespace, keys ...string) Namespace {
	ns.ByHand = keys
	return ns
}
