package expression

import (
	"slices"
	"testing"
)

func TestTheKeysOfANamespaceThatAnExpressionSpellsOut(t *testing.T) {
	for source, want := range map[string]NamespaceKeys{
		`1 + 1`:                                  {},
		`pod.metadata.labels['a']`:               {},
		`namespaceObject.metadata.name`:          {},
		`namespaceObject['metadata']['name']`:    {},
		`namespaceObject.metadata.labels['a/b']`: {Labels: []string{"a/b"}},
		`namespaceObject.metadata.labels.team`:   {Labels: []string{"team"}},
		`namespaceObject.metadata.?labels[?'a'].orValue('') + namespaceObject.metadata.annotations[?'b'].orValue('')`: {Labels: []string{"a"}, Annotations: []string{"b"}},
		`namespaceObject['metadata'].annotations['a'].split(',')[0]`:                                                  {Annotations: []string{"a"}},
		`'a' in namespaceObject.metadata.labels && !(has(namespaceObject.metadata.annotations.b))`:                    {Labels: []string{"a"}, Annotations: []string{"b"}},
		`pod.spec.containers.exists(c, c.name == namespaceObject.metadata.labels['a'])`:                               {Labels: []string{"a"}},
		`{'x': [namespaceObject.metadata.labels['a']]}`:                                                               {Labels: []string{"a"}},
		`namespaceObject.metadata.labels[namespaceObject.metadata.annotations['a']]`:                                  {Annotations: []string{"a"}, Whole: true},
		`pod.metadata.name in namespaceObject.metadata.labels`:                                                        {Whole: true},
		`'a' in ['b'].map(x, namespaceObject.metadata.labels[x])`:                                                     {Whole: true},
		`namespaceObject.metadata.labels.size() > 1`:                                                                  {Whole: true},
		`namespaceObject.metadata.labels.all(k, k != 'a')`:                                                            {Whole: true},
		`namespaceObject.metadata.labels == {'a': 'b'}`:                                                               {Whole: true},
		`['a'].all(namespaceObject, namespaceObject == 'a')`:                                                          {},
		`namespaceObject.metadata`:                                                                                    {Whole: true},
		`[namespaceObject].map(n, n.metadata.labels['a'])`:                                                            {Whole: true},
		`optional.of(namespaceObject.metadata.labels).optMap(l, l['a']).orValue('')`:                                  {Whole: true},
	} {
		e, err := NewEnvironment(Template{AllowUnknownFields: true, Problem: func(_ Place, message string) { t.Errorf("%s: %s", source, message) }, Warn: func(Place, string) {}})
		if err != nil {
			t.Fatal(err)
		}
		if e.Compile(source, Place{}) == nil {
			continue
		}
		got := e.Namespace()
		if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Annotations, want.Annotations) || got.Whole != want.Whole {
			t.Errorf("%s reads %+v, want %+v", source, got, want)
		}
	}
}
