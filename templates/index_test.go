package templates

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// selectorOf draws a selector with any of the operators that there are, over few labels.
func selectorOf(t *rapid.T, label string) labels.Selector {
	if rapid.IntRange(0, 20).Draw(t, label+" nothing") == 0 {
		return labels.Nothing()
	}
	s := labels.NewSelector()
	for i := range rapid.IntRange(0, 2).Draw(t, label) {
		operator := rapid.SampledFrom([]selection.Operator{
			selection.In, selection.Equals, selection.DoubleEquals, selection.NotIn, selection.NotEquals,
			selection.Exists, selection.DoesNotExist, selection.GreaterThan, selection.LessThan,
		}).Draw(t, "operator")
		values := []string{}
		text := rapid.SampledFrom([]string{"", "1", "2", "x"})
		switch operator {
		case selection.In, selection.NotIn:
			values = rapid.SliceOfN(text, 1, 3).Draw(t, "values")
		case selection.Equals, selection.DoubleEquals, selection.NotEquals:
			values = []string{text.Draw(t, "value")}
		case selection.GreaterThan, selection.LessThan:
			values = []string{rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "bound")}
		}
		r, err := labels.NewRequirement(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), operator, values)
		if err != nil {
			t.Fatalf("requirement %d: %v", i, err)
		}
		s = s.Add(*r)
	}
	return s
}

func labelsOf(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"", "1", "2", "x"}), 0, 4).Draw(t, label)
}

// entryOf draws a template, good or broken, that matches or not.
func entryOf(t *rapid.T, name string) Entry {
	template := &Template{name: name, availableTo: labels.Everything()}
	template.spec.Required = rapid.Bool().Draw(t, "required")
	template.spec.InjectByDefault = rapid.Bool().Draw(t, "by default")
	template.spec.Order = int32(rapid.IntRange(0, 2).Draw(t, "order"))
	if rapid.Bool().Draw(t, "matches") {
		template.spec.Match = &v1alpha1.Match{}
		template.matchNamespace, template.matchPod = selectorOf(t, "namespaces"), selectorOf(t, "pods")
	}
	switch rapid.SampledFrom([]string{"good", "good", "broken", "unreadable"}).Draw(t, "state") {
	case "broken":
		return Entry{Name: name, Err: &CompileError{Template: name, Problems: []Problem{{Message: "no"}},
			Broken: template}}
	case "unreadable":
		return Entry{Name: name, Err: errors.New("no such file")}
	}
	return Entry{Name: name, Template: template}
}

func TestTheIndexFindsWhatAskingEachTemplateFinds(t *testing.T) {
	some := 0
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for i := range rapid.IntRange(3, 12).Draw(t, "templates") {
			entries = append(entries, entryOf(t, fmt.Sprintf("t%d", i)))
		}
		s := NewSet(entries)
		namespace, pod, requiredPod := labelsOf(t, "namespace's labels"), labelsOf(t, "pod's labels"), labelsOf(t, "labels for required templates")
		var matching, defaults, required []int
		requiredHere := false
		for place, e := range s.All() {
			if at, ok := s.Place(e.Name); !ok || at != place || s.At(place) != e {
				t.Fatalf("%s is at %d (%v), want %d", e.Name, at, ok, place)
			}
			if e.InjectByDefault() {
				defaults = append(defaults, place)
			}
			see := pod
			if e.Required() {
				required, see = append(required, place), requiredPod
			}
			namespaces, pods, ok := e.Match()
			if !ok || !namespaces.Matches(labels.Set(namespace)) {
				continue
			}
			requiredHere = requiredHere || e.Required()
			if pods.Matches(labels.Set(see)) {
				matching = append(matching, place)
			}
		}
		some += len(matching)
		if got := s.Matching(namespace, pod, requiredPod); !slices.Equal(got, matching) {
			t.Fatalf("matching: %v, want %v", got, matching)
		}
		if got := s.RequiredIn(namespace); got != requiredHere {
			t.Fatalf("required in the namespace: %v, want %v", got, requiredHere)
		}
		if !slices.Equal(s.Defaults(), defaults) || !slices.Equal(s.Required(), required) || s.Len() != len(s.All()) {
			t.Fatalf("by default %v, want %v; required %v, want %v; %d entries", s.Defaults(), defaults, s.Required(), required, s.Len())
		}
	})
	if some == 0 {
		t.Error("no template matched")
	}
}

// counting counts how often a selector is asked.
type counting struct {
	labels.Selector
	asked *int
}

func (c counting) Matches(l labels.Labels) bool {
	*c.asked++
	return c.Selector.Matches(l)
}

// Whatever of their selectors tells templates apart, a lookup asks few of them.
func TestALookupAsksFewOfManyTemplates(t *testing.T) {
	const many = 300
	for name, selectors := range map[string]func(i int) (namespace, pod metav1.LabelSelector){
		"by namespace": func(i int) (namespace, pod metav1.LabelSelector) {
			return metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i)}}, pod
		},
		"by pod": func(i int) (namespace, pod metav1.LabelSelector) {
			return namespace, metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}
		},
		"by pod in one namespace": func(i int) (namespace, pod metav1.LabelSelector) {
			return metav1.LabelSelector{MatchLabels: map[string]string{"stage": "live"}}, metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}
		},
		"by one of several labels": func(i int) (namespace, pod metav1.LabelSelector) {
			return metav1.LabelSelector{MatchLabels: map[string]string{"stage": "live", "a-team": "x", "team": fmt.Sprint(i)}}, pod
		},
		"by one of several values": func(i int) (namespace, pod metav1.LabelSelector) {
			return namespace, metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i), fmt.Sprint(i + many)}}}}
		},
		"by a key": func(i int) (namespace, pod metav1.LabelSelector) {
			return namespace, metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprintf("app-%d", i), Operator: metav1.LabelSelectorOpExists}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			var entries []Entry
			for i := range many {
				ns, pods := selectors(i)
				template := &Template{name: fmt.Sprintf("t%d", i)}
				template.spec.Match = &v1alpha1.Match{}
				template.spec.Required = i%2 == 0
				for of, to := range map[*metav1.LabelSelector]*labels.Selector{&ns: &template.matchNamespace, &pods: &template.matchPod} {
					selector, err := metav1.LabelSelectorAsSelector(of)
					if err != nil {
						t.Fatal(err)
					}
					*to = counting{selector, &asked}
				}
				entries = append(entries, Entry{Name: template.name, Template: template})
			}
			s := NewSet(entries)
			asked = 0
			namespace := map[string]string{"team": "7", "stage": "live", "a-team": "x", "kubernetes.io/metadata.name": "shop"}
			pod := map[string]string{"app": "7", "app-7": ""}
			if got := s.Matching(namespace, pod, pod); len(got) != 1 || s.At(got[0]).Name != "t7" {
				t.Errorf("found %v, want t7", got)
			}
			if asked > 4 {
				t.Errorf("asked %d selectors of %d templates", asked, many)
			}
		})
	}
}
