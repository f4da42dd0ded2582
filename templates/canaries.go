package templates

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// StableFields are the fields of a spec that a canary's pods take from the stable template, also after a
// promotion. A canary may have none of them but suspend, with which it selects no pods.
var StableFields = []string{"match", "availableTo", "required", "injectByDefault", "order", "suspend", "exceptions"}

// MaxPercent is the share of all workloads.
const MaxPercent = 100

// canary is the compiled spec.canary of a template.
type canary struct {
	declared        v1alpha1.Canary
	namespaces, pod labels.Selector
	percent         int
	// spec is the manifest's, without canary.
	spec    map[string]any
	options Options

	// version is the canary compiled under the name and with the fields of stable. err is the reason if it does
	// not compile.
	mu      sync.Mutex
	stable  *Template
	version *Template
	err     error
}

// Canary is a canary of a [Set] with its stable template.
type Canary struct {
	// Entry is the canary's own. Its template has the canary's name.
	Entry
	// Of is the name of the stable template, "" if it is unknown.
	Of string
	// Version is rendered for the selected pods: the canary's spec with the stable template's [StableFields],
	// under the stable template's name. After a promotion the stable template has the same version and hash. It
	// is nil if Unusable is set.
	Version *Template
	// Unusable is the reason why the canary selects no pods: it does not compile, alone or as the stable
	// template, or there is no such template. A suspended canary selects no pods, either.
	Unusable error
}

// Canary returns spec.canary with its defaults. It reports false for a template without spec.canary.
func (t *Template) Canary() (v1alpha1.Canary, bool) {
	if t == nil || t.canary == nil {
		return v1alpha1.Canary{}, false
	}
	return t.canary.declared, true
}

// Percent returns the share of the workloads, 0 to 100, among those that the selectors select.
func (c Canary) Percent() int {
	if c.Template == nil {
		return 0
	}
	return c.Template.canary.percent
}

// InForce reports whether the canary may select pods.
func (c Canary) InForce() bool { return c.Version != nil && !c.Suspended() }

// MatchesNamespace reports whether the canary's namespaceSelector selects these labels. The canary must compile.
func (c Canary) MatchesNamespace(namespaceLabels map[string]string) bool {
	return c.Template.canary.namespaces.Matches(labels.Set(namespaceLabels))
}

// MatchesPod reports whether the canary's podSelector selects these labels. The canary must compile.
func (c Canary) MatchesPod(podLabels map[string]string) bool {
	return c.Template.canary.pod.Matches(labels.Set(podLabels))
}

// SelectsIn reports whether pods of a namespace with these labels may get the canary.
func (c Canary) SelectsIn(namespaceLabels map[string]string) bool {
	return c.InForce() && c.Percent() > 0 && c.MatchesNamespace(namespaceLabels)
}

// Selects reports whether a pod with these labels in a namespace with these labels gets the canary. Share
// returns the workload's place, 0 to 99, which must be below the percentage. Selects calls it only if the
// selectors select and the percentage is between 0 and 100.
func (c Canary) Selects(namespaceLabels, podLabels map[string]string, share func() int) bool {
	if !c.InForce() || !c.MatchesNamespace(namespaceLabels) || !c.MatchesPod(podLabels) {
		return false
	}
	percent := c.Percent()
	return percent == MaxPercent || percent > 0 && share() < percent
}

// ofCanary returns the name of the stable template if the entry is a canary's. An entry without a good version
// is a canary if its newest manifest has spec.canary. Templates of namespaces are never canaries.
func (e Entry) ofCanary() (stable string, ok bool) {
	if t := e.Known(); t != nil && t.spec.Canary != nil && e.Namespace == "" {
		return t.spec.Canary.Of, true
	}
	return "", false
}

// canaryOf returns the canary of an entry. Found is false if there is no stable template.
func canaryOf(e Entry, of string, stable Entry, found bool) Canary {
	c := Canary{Entry: e, Of: of}
	switch {
	case e.Template == nil:
		c.Unusable = e.Err
	case !found:
		c.Unusable = fmt.Errorf("there is no template %s (spec.canary.of), so the canary selects no pods; name an existing template that is no canary, or create it", show.Value(of))
	case stable.Template == nil:
		c.Unusable = fmt.Errorf("no good version of the template %s (spec.canary.of) is known, so it selects no pods", show.Value(of))
	default:
		c.Version, c.Unusable = e.Template.AsStable(stable.Template)
		if label := ownLabel(stable.Template, e.Template); label != "" {
			c.Version, c.Unusable = nil, fmt.Errorf("spec.canary.podSelector selects by the label %s, which the template %s itself sets, so a new pod and the same pod when it is verified would get different versions; select by another label",
				show.Value(label), show.Value(of))
		}
	}
	return c
}

// ownLabel returns a label that the canary's podSelector selects by and that the required stable template sets,
// "" for none.
func ownLabel(stable, canary *Template) string {
	selector := canary.canary.declared.PodSelector
	if !stable.spec.Required || selector == nil {
		return ""
	}
	v, _ := rawjson.Decode(stable.spec.Inject)
	fragment, _ := v.(map[string]any)
	metadata, _ := fragment["metadata"].(map[string]any)
	set, _ := metadata["labels"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		_, selects := selector.MatchLabels[key]
		if selects || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
			return key
		}
	}
	return ""
}

// AsStable compiles the canary under the stable template's name and with its [StableFields]. A nil stable means
// that the stable template is unknown: the version then has none of these fields.
func (t *Template) AsStable(stable *Template) (*Template, error) {
	if stable == nil {
		return t.compileAsStable(&Template{name: t.canary.declared.Of})
	}
	c := t.canary
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stable != stable {
		c.stable = stable
		c.version, c.err = t.compileAsStable(stable)
	}
	return c.version, c.err
}

func (t *Template) compileAsStable(stable *Template) (*Template, error) {
	spec, err := rawOf(stable.spec)
	if err != nil {
		return nil, fmt.Errorf("reading the spec of the template %s: %w", stable.name, err)
	}
	object := map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
		"metadata": map[string]any{"name": stable.name}, "spec": PromotedSpec(t.canary.spec, spec),
	}
	version, _, err := compileObject(object, nil, &manifest.Source{}, t.canary.options)
	var mistakes *CompileError
	if errors.As(err, &mistakes) {
		for i := range mistakes.Problems {
			mistakes.Problems[i].Message += fmt.Sprintf(" (with the stable template %s's values of %s)", stable.name, strings.Join(StableFields, ", "))
		}
		mistakes.Template = t.name
	}
	return version, err
}

// PromotedSpec returns the spec of the stable template after a promotion: the canary's spec with the stable
// template's [StableFields]. It does not modify either.
func PromotedSpec(canary, stable map[string]any) map[string]any {
	spec := map[string]any{}
	for key, value := range canary {
		if key != "canary" && !slices.Contains(StableFields, key) {
			spec[key] = value
		}
	}
	for _, key := range StableFields {
		if value, ok := stable[key]; ok && value != nil {
			spec[key] = value
		}
	}
	return spec
}

// canary compiles spec.canary.
func (c *compiler) canary(t *Template, raw any, o Options, at *manifest.Path) {
	declared := t.spec.Canary
	if declared == nil {
		return
	}
	spec, _ := raw.(map[string]any)
	for _, field := range StableFields {
		if v := spec[field]; field != "suspend" && v != nil && v != false && v != json.Number("0") { // the CRD fills in false and 0
			c.problem(at.Field(field), "is the stable template's: leave it out of a canary")
		}
	}
	here := at.Field("canary")
	switch {
	case declared.Of == "":
		c.problem(here.Field("of"), "is missing; it must be the name of the stable template")
	case !templateName.MatchString(declared.Of):
		c.problem(here.Field("of"), fmt.Sprintf("%s is not a template name; it must be a DNS label: lower case letters, digits and -", show.Value(declared.Of)))
	case declared.Of == t.name:
		c.problem(here.Field("of"), "is this template itself; it must be the name of another one")
	}
	of := &canary{declared: *declared, options: o}
	of.namespaces = c.namespaceSelector(t, declared.NamespaceSelector, here.Field("namespaceSelector"))
	of.pod = c.podSelector(t, declared.PodSelector, here.Field("podSelector"))
	if declared.NamespaceSelector != nil || declared.PodSelector != nil {
		of.percent = MaxPercent
	}
	if p := declared.Percent; p != nil {
		if of.percent = int(*p); *p < 0 || *p > MaxPercent {
			c.problem(here.Field("percent"), fmt.Sprintf("is %d; want 0 to %d", *p, MaxPercent))
		}
	} else {
		percent := int32(of.percent) //nolint:gosec // 0 or 100
		of.declared.Percent = &percent
	}
	of.spec = maps.Clone(spec)
	delete(of.spec, "canary")
	t.canary = of
}

// Canaries returns the canaries of the set, by name. The caller must not change the slice.
func (s *Set) Canaries() []Canary { return s.canaries }

// Canary returns the canary of that name. It reports false if there is no such canary.
func (s *Set) Canary(name string) (Canary, bool) {
	i, ok := slices.BinarySearchFunc(s.canaries, name, func(c Canary, name string) int { return cmp.Compare(c.Name, name) })
	if !ok {
		return Canary{}, false
	}
	return s.canaries[i], true
}

// HashOf returns the hash of an entry that its pods carry, "" if there is no good version.
func (s *Set) HashOf(e Entry) string {
	t := e.Template
	if c, ok := s.Canary(e.Name); ok {
		t = c.Version
	}
	if t == nil {
		return ""
	}
	return t.Hash()
}

// CanariesOf returns the canaries of a stable template that is in the set, by name.
func (s *Set) CanariesOf(stable string) []Canary {
	if _, ok := s.Get(stable); !ok {
		return nil
	}
	var all []Canary
	for _, c := range s.canaries {
		if c.Of == stable {
			all = append(all, c)
		}
	}
	return all
}
