package record

import (
	"encoding/json"
	"fmt"
)

// A place with nothing but a digest is that text; any other is an object.

// encoded is nil for a place that says nothing.
func (p *Place) encoded() any {
	if p.Wrote != "" && !p.Made && !p.Added && len(p.Was)+len(p.Removed)+len(p.In) == 0 {
		return p.Wrote
	}
	o := map[string]any{}
	if p.Made {
		o["made"] = true
	}
	if p.Added {
		o["added"] = true
	}
	if p.Wrote != "" {
		o["wrote"] = p.Wrote
	}
	if len(p.Was) > 0 {
		o["was"] = p.Was[:1]
	}
	if len(p.Removed) > 0 {
		list := make([]any, len(p.Removed))
		for i, r := range p.Removed {
			list[i] = map[string]any{"at": r.At, "value": r.Value}
		}
		o["removed"] = list
	}
	in := make(map[string]any, len(p.In))
	for segment, child := range p.In {
		if v := child.encoded(); v != nil {
			in[segment] = v
		}
	}
	if len(in) > 0 {
		o["in"] = in
	}
	if len(o) == 0 {
		return nil
	}
	return o
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
		for name, value := range v {
			if err := decodeField(p, name, value); err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
		}
		return p, nil
	default:
		return nil, fmt.Errorf("a place is a digest or an object, not %v", v)
	}
}

func decodeField(p *Place, name string, v any) error {
	ok := false
	switch name {
	case "made":
		p.Made, ok = v.(bool)
	case "added":
		p.Added, ok = v.(bool)
	case "wrote":
		p.Wrote, ok = v.(string)
	case "was":
		p.Was, ok = v.([]any)
		ok = ok && len(p.Was) == 1
	case "removed":
		var list []any
		if list, ok = v.([]any); ok {
			return decodeRemoved(p, list)
		}
	case "in":
		var in map[string]any
		if in, ok = v.(map[string]any); ok {
			return decodeIn(p, in)
		}
	default:
		return fmt.Errorf("no such field of a place")
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

func decodeIn(p *Place, in map[string]any) error {
	for segment, v := range in {
		child, err := decodePlace(v)
		if err != nil {
			return fmt.Errorf("%q: %w", segment, err)
		}
		p.Set(segment, child)
	}
	return nil
}
