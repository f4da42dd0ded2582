package podschema

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/pillion-dev/pillion/internal/errtest"
)

var update = flag.Bool("update", false, "write pod.json anew")

// fromClientGo builds the schema of a pod from the one of all API groups.
func fromClientGo(t *testing.T) *Type {
	t.Helper()
	scheme := runtime.NewScheme()
	errtest.ExpectNone(t, corev1.AddToScheme(scheme))
	typed, err := applyconfigurations.NewTypeConverter(scheme).ObjectToTyped(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}})
	errtest.ExpectNone(t, err)
	b := builder{schema: typed.Schema(), named: map[string]*Type{}}
	return b.ref(typed.TypeRef())
}

// encode writes a type and all that it refers to.
func encode(t *testing.T, root *Type) []byte {
	t.Helper()
	places, order := map[*Type]int{root: 0}, []*Type{root}
	at := func(of *Type) int {
		place, ok := places[of]
		if !ok {
			place = len(order)
			places[of], order = place, append(order, of)
		}
		return place
	}
	var all []stored
	for i := 0; i < len(order); i++ {
		of := order[i]
		s := stored{Kind: of.kind, Scalar: of.scalar, Keys: of.keys, Set: of.set, Atomic: of.atomic}
		for _, name := range of.names {
			if s.Fields == nil {
				s.Fields = map[string]int{}
			}
			s.Fields[name] = at(of.fields[name])
		}
		if of.elem != nil {
			s.Elem = at(of.elem)
		}
		all = append(all, s)
	}
	var text bytes.Buffer
	text.WriteString("[")
	for i, s := range all {
		line, err := json.Marshal(s)
		errtest.ExpectNone(t, err)
		if i > 0 {
			text.WriteString(",")
		}
		text.WriteString("\n" + string(line))
	}
	text.WriteString("\n]\n")
	return text.Bytes()
}

func TestTheEmbeddedSchemaIsThatOfClientGo(t *testing.T) {
	want := fromClientGo(t)
	text := encode(t, want)
	if *update {
		errtest.ExpectNone(t, os.WriteFile("pod.json", text, 0o644))
		podTypes = text
	}
	types, err := readTypes(podTypes)
	errtest.ExpectNone(t, err)
	if !bytes.Equal(text, podTypes) || !reflect.DeepEqual(want, types[0]) {
		t.Error("pod.json is not the schema of client-go; run go generate ./templates/podschema")
	}
}

type builder struct {
	schema *smd.Schema
	named  map[string]*Type
}

// ref builds the type that r refers to. A named type is built once, and is
// known by its name before its fields are, because types may contain themselves.
func (b *builder) ref(r smd.TypeRef) *Type {
	if r.NamedType != nil {
		if t, ok := b.named[*r.NamedType]; ok {
			return t
		}
		b.named[*r.NamedType] = &Type{}
	}
	atom, ok := b.schema.Resolve(r)
	if !ok {
		panic(fmt.Sprintf("podschema: client-go's schema has no type %v", r.NamedType))
	}
	t := &Type{}
	if r.NamedType != nil {
		t = b.named[*r.NamedType]
	}
	b.fill(t, atom)
	return t
}

func (b *builder) fill(t *Type, atom smd.Atom) {
	switch {
	// Untyped scalars also carry a map and a list in a schema; nothing in a pod
	// that is declared so holds either.
	case atom.Scalar != nil:
		t.kind, t.scalar = Scalar, scalarType(*atom.Scalar)
	case atom.List != nil:
		t.kind = List
		t.elem = b.ref(atom.List.ElementType)
		t.atomic = atom.List.ElementRelationship == smd.Atomic
		for _, name := range atom.List.Keys {
			t.keys = append(t.keys, Key{Name: name, Default: b.keyDefault(atom.List, name)})
		}
		t.set = !t.atomic && len(t.keys) == 0
	case atom.Map != nil && len(atom.Map.Fields) == 0:
		t.kind = Map
		t.elem = b.ref(atom.Map.ElementType)
		t.atomic = atom.Map.ElementRelationship == smd.Atomic
	default:
		t.kind = Struct
		t.fields = make(map[string]*Type, len(atom.Map.Fields))
		t.atomic = atom.Map.ElementRelationship == smd.Atomic
		for _, f := range atom.Map.Fields {
			t.fields[f.Name] = b.ref(f.Type)
			t.names = append(t.names, f.Name)
		}
		slices.Sort(t.names)
	}
}

// keyDefault returns the default of a key field as the item's schema has it, if it is a
// text. A port's number has the default 0, which no port can have.
func (b *builder) keyDefault(list *smd.List, name string) any {
	item, ok := b.schema.Resolve(list.ElementType)
	if !ok || item.Map == nil {
		return nil
	}
	f, ok := item.Map.FindField(name)
	if !ok {
		return nil
	}
	if text, ok := f.Default.(string); ok {
		return text
	}
	return nil
}

func scalarType(s smd.Scalar) ScalarType {
	switch s {
	case smd.String:
		return String
	case smd.Numeric:
		return Number
	case smd.Boolean:
		return Boolean
	default:
		return Untyped
	}
}
