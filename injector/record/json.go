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
	"github.com/pillion-dev/pillion/templates/rawjson"
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
	behindKey  = "$behind"
)

// appendJSON appends the place as JSON. It reports false, and appends nothing, for a place
// that says nothing.
func (p *Place) appendJSON(b []byte) ([]byte, bool) {
	if o := p.origin; o != nil && p.Made == o.Made && p.Added == o.Added && p.Wrote == o.Wrote && len(p.Was)+len(p.Removed)+p.Behind == 0 {
		return append(b, o.text...), len(o.text) > 0
	}
	start := len(b)
	if p.Wrote != "" && !p.Made && !p.Added && len(p.Was)+len(p.Removed)+len(p.In)+p.Behind == 0 {
		return rawjson.AppendText(b, p.Wrote), true // nothing but a digest
	}
	b = append(b, '{')
	begin := func(name string) {
		if len(b) > start+1 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendText(b, name), ':')
	}
	if p.Added {
		begin(addedKey)
		b = append(b, "true"...)
	}
	if p.Behind > 0 {
		begin(behindKey)
		b = strconv.AppendInt(b, int64(p.Behind), 10)
	}
	if p.Made {
		begin(madeKey)
		b = append(b, "true"...)
	}
	if len(p.Removed) > 0 {
		begin(removedKey)
		list := make([]any, len(p.Removed))
		for i, r := range p.Removed {
			list[i] = map[string]any{"at": json.Number(strconv.Itoa(r.At)), "value": r.Value}
		}
		b = rawjson.Append(b, list)
	}
	if len(p.Was) > 0 {
		begin(wasKey)
		b = rawjson.Append(b, []any{p.Was[0]})
	}
	var room [16]string
	segments := room[:0]
	for segment := range p.In {
		segments = append(segments, segment)
	}
	slices.Sort(segments)
	digestOnly := 0 // how long b is if nothing comes after a digest that nothing comes before
	if p.Wrote != "" {
		first := len(b) == start+1
		begin(wroteKey)
		b = rawjson.AppendText(b, p.Wrote)
		if first {
			digestOnly = len(b)
		}
	}
	for _, segment := range segments {
		before := len(b)
		begin(escaped(segment))
		var says bool
		if b, says = p.In[segment].appendJSON(b); !says {
			b = b[:before]
		}
	}
	switch len(b) {
	case start + 1:
		return b[:start], false
	case digestOnly: // the places in this one say nothing
		return rawjson.AppendText(b[:start], p.Wrote), true
	}
	return append(b, '}'), true
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
		p.uncount()
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
	case behindKey:
		number, _ := v.(json.Number)
		behind, err := strconv.ParseUint(string(number), 10, 31)
		p.Behind, ok = int(behind), err == nil && behind > 0
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
