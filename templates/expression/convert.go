package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// room is the number of bytes of JSON that a conversion may still write.
type room int

// The errors of an exceeded bound.
var (
	errTooLarge = fmt.Errorf("gives more than %d bytes", MaxBytes)
	errTooLong  = errors.New("a call takes too long for the size of its arguments")
	errTooMany  = fmt.Errorf("a macro such as map goes over more than %d items", MaxIterations)
)

func (b *room) spend(n int) error {
	if *b -= room(n); *b < 0 {
		return errTooLarge
	}
	return nil
}

// toNative converts a CEL value to raw JSON: numbers become json.Number, null and optional.none() become nil.
// The result shares no memory with the value.
func toNative(v ref.Val, b *room) (any, error) {
	if err := b.spend(2); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return toNative(v.GetValue(), b)
	case types.String:
		return string(v), b.spend(len(v))
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("the number %v is not finite", float64(v))
		}
		return json.Number(manifest.FormatNumber(float64(v))), nil
	case types.Bytes:
		return nil, errors.New("bytes have no form in a pod; turn them into text with string()")
	case *object:
		return objectToNative(v, b)
	case traits.Mapper:
		return mapToNative(v, b)
	case traits.Lister:
		return listToNative(v, b)
	case *types.Err:
		return nil, v
	}
	return textOfOther(v)
}

// textOfOther writes times, quantities, addresses and versions as text.
func textOfOther(v ref.Val) (any, error) {
	if text, ok := v.ConvertToType(types.StringType).(types.String); ok {
		return string(text), nil
	}
	if text, err := v.ConvertToNative(reflect.TypeFor[string]()); err == nil {
		return text, nil
	}
	return nil, fmt.Errorf("%s has no form in a pod", celKind(v.Type().TypeName()))
}

func objectToNative(o *object, b *room) (any, error) {
	m := map[string]any{}
	for _, name := range o.names {
		if !o.has(name) {
			continue
		}
		v, err := o.get(name)
		if err != nil {
			return nil, err
		}
		if err := b.spend(len(name) + 4); err != nil {
			return nil, err
		}
		if m[name], err = toNative(adapt(v), b); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func mapToNative(m traits.Mapper, b *room) (any, error) {
	// Raw JSON from the pod keeps its numbers exact.
	if native, ok := m.Value().(map[string]any); ok {
		return copyNative(native, b)
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		text, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map has a key that is %s; it must be text", celKind(key.Type().TypeName()))
		}
		if err := b.spend(len(text) + 4); err != nil {
			return nil, err
		}
		v, err := toNative(m.Get(key), b)
		if err != nil {
			return nil, err
		}
		out[string(text)] = v
	}
	return out, nil
}

func listToNative(l traits.Lister, b *room) (any, error) {
	if native, ok := l.Value().([]any); ok {
		return copyNative(native, b)
	}
	size, ok := l.Size().(types.Int)
	if !ok {
		return nil, errors.New("a list has no size")
	}
	out := []any{}
	for i := range size {
		v, err := toNative(l.Get(i), b)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// copyNative copies raw JSON deeply.
func copyNative(v any, b *room) (any, error) {
	if err := b.spend(2); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		return v, b.spend(len(v))
	case json.Number:
		return v, b.spend(len(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if err := b.spend(len(key) + 4); err != nil {
				return nil, err
			}
			copied, err := copyNative(value, b)
			if err != nil {
				return nil, err
			}
			out[key] = copied
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			copied, err := copyNative(value, b)
			if err != nil {
				return nil, err
			}
			out[i] = copied
		}
		return out, nil
	}
	return toNative(adapt(v), b)
}

// toText converts a CEL value for insertion into a text. Source is the expression.
func toText(v ref.Val, source string, b *room) (string, error) {
	native, err := toNative(v, b)
	if err != nil {
		return "", err
	}
	switch native := native.(type) {
	case string:
		return native, nil
	case nil:
		return "", errors.New("is null or none inside a text" + textForm(source, isNull))
	case []any, map[string]any:
		return "", fmt.Errorf("gives %s inside a text%s", show.Kind(native), textForm(source, show.Kind(native)))
	default:
		return fmt.Sprint(native), nil
	}
}

// canFit reports whether a value of the static type c can become one of the type t. It reports true if only the
// pod can tell.
func canFit(c *cel.Type, t *podschema.Type) bool {
	c = withoutOptional(c)
	if t == nil {
		return c.Kind() != types.BytesKind && c.Kind() != types.TypeKind
	}
	switch c.Kind() {
	case types.DynKind, types.AnyKind, types.TypeParamKind, types.NullTypeKind, types.ErrorKind:
		return true
	case types.ListKind:
		return t.Kind() == podschema.List && canFit(c.Parameters()[0], t.Elem())
	case types.MapKind:
		return t.Kind() == podschema.Struct || t.Kind() == podschema.Map && canFit(c.Parameters()[1], t.Elem())
	case types.StructKind:
		if isObject(c) {
			return t.Kind() == podschema.Struct || t.Kind() == podschema.Map
		}
	}
	return t.Kind() == podschema.Scalar && canFitScalar(c, t)
}

func canFitScalar(c *cel.Type, t *podschema.Type) bool {
	switch c.Kind() {
	case types.StringKind, types.DurationKind, types.TimestampKind, types.OpaqueKind, types.StructKind:
		return t.Scalar() == podschema.String || t.Scalar() == podschema.Untyped
	case types.IntKind, types.UintKind, types.DoubleKind:
		return t.Scalar() != podschema.Boolean
	case types.BoolKind:
		return t.Scalar() == podschema.String || t.Scalar() == podschema.Boolean
	}
	return false
}

// canJoin reports whether a value of the static type c can be joined into a text.
func canJoin(c *cel.Type) bool {
	switch c.Kind() {
	case types.ListKind, types.MapKind, types.NullTypeKind, types.BytesKind, types.TypeKind:
		return false
	case types.OpaqueKind:
		return !isOptional(c)
	case types.StructKind:
		return !isObject(c)
	}
	return true
}

// isObject reports whether a type is params or variables, and not an object type of Kubernetes' libraries, such
// as quantities, which are text in a pod.
func isObject(c *cel.Type) bool {
	name := c.TypeName()
	return name == paramsType || name == variablesType
}

func isOptional(c *cel.Type) bool {
	return c.Kind() == types.OpaqueKind && c.TypeName() == types.OptionalType.TypeName()
}

func withoutOptional(c *cel.Type) *cel.Type {
	if isOptional(c) {
		return c.Parameters()[0]
	}
	return c
}

// celKind names a type of CEL in a message.
func celKind(name string) string { return "a value of the type " + name }

// adapter converts the numbers of raw JSON to CEL's.
type adapter struct{}

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case string:
		return types.String(v)
	case json.Number:
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case map[ref.Val]ref.Val:
		return types.NewRefValMap(a, v)
	case []ref.Val:
		return types.NewRefValList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

func adapt(v any) ref.Val { return adapter{}.NativeToValue(v) }

func number(n json.Number) ref.Val {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return types.Int(i)
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return types.Uint(u)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsInf(f, 0) {
		return types.NewErr("the number %s is too large", show.Plain(n.String()))
	}
	return types.Double(f)
}
