package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// orderedEntry compiles an empty template with an order, of the cluster or of a namespace.
func orderedEntry(t *testing.T, namespace, name string, order int) Entry {
	t.Helper()
	kind := "kind: SidecarTemplate"
	if namespace != "" {
		kind = "kind: NamespacedSidecarTemplate"
	}
	text := strings.NewReplacer("name: t", "name: "+name, "kind: SidecarTemplate", kind).Replace(string(manifestOf(fmt.Sprintf("order: %d\ninject: {}", order))))
	return Entry{Name: name, Namespace: namespace, Template: compiledWith(t, []byte(text), Options{})}
}

func namesOf(entries []Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestSetsAreOrdered(t *testing.T) {
	s := NewSet([]Entry{
		{Name: "broken-b"}, orderedEntry(t, "", "c", 1), {Name: "a", Err: errors.New("x")}, orderedEntry(t, "", "b", 1),
		{Name: "broken-a"}, orderedEntry(t, "", "z", -1), orderedEntry(t, "", "a", 5),
	})
	if got, want := namesOf(s.All()), "z b c a broken-a broken-b"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if e, ok := s.Get("a"); !ok || e.Template == nil || e.Err != nil {
		t.Errorf("of two entries the last counts; got %+v", e)
	}
	if _, ok := s.Get("none"); ok {
		t.Error("there is an entry that nobody gave")
	}
}

func TestTheTemplatesOfANamespaceStandAmongThoseOfTheCluster(t *testing.T) {
	s := NewSet([]Entry{
		orderedEntry(t, "", "m", 0), orderedEntry(t, "", "z", 10), {Name: "broken"},
		orderedEntry(t, "shop", "a", 0), orderedEntry(t, "shop", "last", 20), orderedEntry(t, "shop", "z", -5), orderedEntry(t, "pay", "p", 0), orderedEntry(t, "shop", "o", 10),
	})
	for namespace, want := range map[string]string{"shop": "a m o z last broken", "pay": "m p z broken", "other": "m z broken", "": "m z broken"} {
		in := s.In(namespace)
		if got := namesOf(in.Entries()); got != want {
			t.Errorf("in %q: %s, want %s", namespace, got, want)
		}
		if e, _ := in.Get("z"); e.Namespace != "" {
			t.Errorf("in %q the namespace's z counts, and not the cluster's", namespace)
		}
		if again := in.In(namespace); namesOf(again.Entries()) != want {
			t.Errorf("in %q twice: %s", namespace, namesOf(again.Entries()))
		}
	}
}
