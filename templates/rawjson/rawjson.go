package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Decode decodes one JSON value into maps, slices, strings, booleans, nil, and [json.Number]s, which keep all
// digits. It treats three cases as kube-apiserver does: the last of several equal names counts, names are
// case-sensitive, and invalid UTF-8 is replaced.
func Decode(text []byte) (any, error) { return DecodeWithout(text) }

// DecodeWithout is [Decode] without the value at a path of fields.
func DecodeWithout(text []byte, path ...string) (any, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := value(d, d.PeekKind(), path)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

// value decodes the next value, which is of the given kind. It skips the value at the path without.
func value(d *jsontext.Decoder, kind jsontext.Kind, without []string) (any, error) {
	switch kind {
	case '{':
		return object(d, without)
	case '[':
		return array(d)
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case 't', 'f':
		return kind == 't', nil
	}
	return nil, nil
}

func object(d *jsontext.Decoder, without []string) (any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		var inside []string
		if len(without) > 0 && without[0] == key {
			if inside = without[1:]; len(inside) == 0 {
				if err := d.SkipValue(); err != nil {
					return nil, err
				}
				continue
			}
		}
		if fields[key], err = value(d, d.PeekKind(), inside); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return fields, err
}

func array(d *jsontext.Decoder) (any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	items := []any{}
	for d.PeekKind() != ']' {
		v, err := value(d, d.PeekKind(), nil)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.ReadToken()
	return items, err
}

// Append appends the JSON text of a value, without escapes for HTML, and with sorted fields. It panics if the
// value is not JSON.
func Append(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return AppendText(b, v)
	case json.Number:
		return append(b, v...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = Append(b, item)
		}
		return append(b, ']')
	case map[string]any:
		var room [16]string
		b = append(b, '{')
		for i, name := range SortedKeys(room[:0], v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendText(b, name), ':')
			b = Append(b, v[name])
		}
		return append(b, '}')
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("rawjson: encoding a JSON value: " + err.Error())
	}
	return append(b, text...)
}

// AppendText appends a text as JSON. It replaces invalid UTF-8.
func AppendText(b []byte, s string) []byte {
	before, start := len(b), 0
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(append(b, s[start:i]...), '\\')
			start = i
		case c < ' ' || c > '~':
			b, _ = jsontext.AppendQuote(b[:before], s)
			return b
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// SortedKeys appends the keys of an object to keys, all in order.
func SortedKeys(keys []string, v map[string]any) []string {
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
