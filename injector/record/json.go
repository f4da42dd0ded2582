package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// A place with nothing but a digest is that text. Any other is an object: what the
// record says of the place itself has keys that begin with $, the places in it have
// their segments, in which a $ at the beginning is doubled.
const (
	madeKey    = "$made"
	addedKey   = "$added"
	wroteKey   = "$wrote"
	wasKey     = "$was"
	removedKey = "$removed"
)

// encoded is nil for a place that says nothing.
func (p *Place) encoded() any {
	o := make(map[string]any, len(p.In))
	for segment, child := range p.In {
		if v := child.encoded(); v != nil {
			o[escaped(segment)] = v
		}
	}
	if p.Wrote != "" && !p.Made && !p.Added && len(p.Was)+len(p.Removed)+len(o) == 0 {
		return p.Wrote
	}
	if p.Made {
		o[madeKey] = true
	}
	if p.Added {
		o[addedKey] = true
	}
	if p.Wrote != "" {
		o[wroteKey] = p.Wrote
	}
	if len(p.Was) > 0 {
		o[wasKey] = p.Was[:1]
	}
	if len(p.Removed) > 0 {
		list := make([]any, len(p.Removed))
		for i, r := range p.Removed {
			list[i] = map[string]any{"at": json.Number(strconv.Itoa(r.At)), "value": r.Value}
		}
		o[removedKey] = list
	}
	if len(o) == 0 {
		return nil
	}
	return o
}

func escaped(segment string) string {
	if strings.HasPrefix(segment, "$") {
		return "$" + segment
	}
	return segment
}

func decodePlace(v any) (*Place, error) {
	p := &Place{}
	switch v := v.(type) {
	case nil:
		return p, nil
	case string:
		p.Wrote = v
		return p, nil
	case map[string]any:
		// In order, so that the first mistake is always the same.
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := decodeField(p, name, v[name]); err != nil {
				return nil, inField(name, err)
			}
		}
		return p, nil
	default:
		return nil, fmt.Errorf("a place is a digest or an object, not %s", podschema.Show(v))
	}
}

// fieldError is a mistake in a field of the record.
type fieldError struct {
	// path has the fields from the innermost to the outermost.
	path []string
	err  error
}

func inField(name string, err error) error {
	var inner *fieldError
	if errors.As(err, &inner) {
		inner.path = append(inner.path, name)
		return inner
	}
	return &fieldError{path: []string{name}, err: err}
}

// Error shows the beginning of a long path.
func (e *fieldError) Error() string {
	var path strings.Builder
	for _, name := range slices.Backward(e.path) {
		path.WriteString("/" + name)
	}
	return fmt.Sprintf("%q: %v", podschema.Clip(path.String()), e.err)
}

// Unwrap returns what is wrong with the field.
func (e *fieldError) Unwrap() error { return e.err }

func decodeField(p *Place, name string, v any) error {
	ok := false
	switch name {
	case madeKey:
		p.Made, ok = v.(bool)
	case addedKey:
		p.Added, ok = v.(bool)
	case wroteKey:
		p.Wrote, ok = v.(string)
	case wasKey:
		p.Was, ok = v.([]any)
		ok = ok && len(p.Was) == 1
	case removedKey:
		var list []any
		if list, ok = v.([]any); ok {
			return decodeRemoved(p, list)
		}
	default:
		segment, isEscaped := strings.CutPrefix(name, "$")
		if isEscaped && !strings.HasPrefix(segment, "$") {
			return errors.New("no such field of a place")
		}
		child, err := decodePlace(v)
		if err != nil {
			return err
		}
		p.Set(segment, child)
		return nil
	}
	if !ok {
		return fmt.Errorf("it cannot hold a %T", v)
	}
	return nil
}

func decodeRemoved(p *Place, list []any) error {
	for _, v := range list {
		item, _ := v.(map[string]any)
		text, _ := item["at"].(json.Number)
		at, err := text.Int64()
		if err != nil {
			return fmt.Errorf("an item without its index: %w", err)
		}
		p.Removed = append(p.Removed, Removed{At: int(at), Value: item["value"]})
	}
	return nil
}
