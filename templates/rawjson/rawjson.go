package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pillion-dev/pillion/templates/facts"
)

// Decode decodes one JSON value into maps, slices, strings, booleans, nil, and
// [json.Number]s, which keep all digits. It treats duplicate names, case and invalid UTF-8 as
// kube-apiserver does: the last of several counts, names differ in case, and what is not
// UTF-8 is replaced. Common has texts and numbers, by how JSON writes them, that are not to be
// made anew each time; nil for none.
func Decode(text []byte, common map[string]any) (any, error) { return DecodeWithout(text, common) }

// DecodeWithout is [Decode] without the value at a path of fields.
func DecodeWithout(text []byte, common map[string]any, path ...string) (any, error) {
	d := decoders.Get().(*decoder)
	d.common, d.buffer = common, *bytes.NewBuffer(text)
	d.json.Reset(&d.buffer, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := d.value(d.json.PeekKind(), path)
	if err == nil {
		err = d.end()
	}
	d.json.Reset(nothing{}) // the text is not kept
	d.buffer = bytes.Buffer{}
	decoders.Put(d)
	return v, err
}

// decoder decodes one text at a time.
type decoder struct {
	json   *jsontext.Decoder
	buffer bytes.Buffer
	common map[string]any
}

var decoders = sync.Pool{New: func() any { return &decoder{json: jsontext.NewDecoder(nothing{})} }}

// nothing is an empty text.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// end returns an error if something follows the value.
func (d *decoder) end() error {
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}
	return nil
}

// value decodes the next value, which is of the given kind, without what is at a path in it.
func (d *decoder) value(kind jsontext.Kind, without []string) (any, error) {
	switch kind {
	case '{':
		return d.object(without)
	case '[':
		return d.array()
	}
	text, err := d.json.ReadValue()
	if err != nil {
		return nil, err
	}
	if v, ok := d.common[string(text)]; ok {
		return v, nil
	}
	switch kind {
	case '"':
		return unquote(text), nil
	case '0':
		return json.Number(text), nil
	case 't', 'f':
		return kind == 't', nil
	}
	return nil, nil
}

func (d *decoder) object(without []string) (any, error) {
	if _, err := d.json.ReadToken(); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for d.json.PeekKind() != '}' {
		name, err := d.json.ReadValue()
		if err != nil {
			return nil, err
		}
		key, ok := d.common[string(name)].(string)
		if !ok {
			key = unquote(name)
		}
		var inside []string
		if len(without) > 0 && without[0] == key {
			if inside = without[1:]; len(inside) == 0 {
				if err := d.json.SkipValue(); err != nil {
					return nil, err
				}
				continue
			}
		}
		if object[key], err = d.value(d.json.PeekKind(), inside); err != nil {
			return nil, err
		}
	}
	_, err := d.json.ReadToken()
	return object, err
}

func (d *decoder) array() (any, error) {
	if _, err := d.json.ReadToken(); err != nil {
		return nil, err
	}
	array := []any{}
	for {
		kind := d.json.PeekKind()
		if kind == ']' {
			break
		}
		v, err := d.value(kind, nil)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := d.json.ReadToken()
	return array, err
}

// unquote returns what a valid JSON string stands for.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // it has been read, and so is a string
	return string(text)
}

// Append appends the JSON text of a value, without escapes for HTML, the fields of objects
// in order. It panics for what is no JSON.
func Append(b []byte, v any) []byte { return AppendKnown(b, v, nil) }

// texts are those of values that never change.
var texts = facts.NewQuestion[[]byte]()

// AppendKnown is [Append], with what is known about values that never change.
func AppendKnown(b []byte, value any, known facts.Stores) []byte {
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
		if f := known.Of(value); f != nil {
			return append(b, texts.Answer(f, func() []byte { return appendList(nil, v, known) })...)
		}
		return appendList(b, v, known)
	case map[string]any:
		if f := known.Of(value); f != nil {
			return append(b, texts.Answer(f, func() []byte { return appendObject(nil, v, known) })...)
		}
		return appendObject(b, v, known)
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("rawjson: encoding a JSON value: " + err.Error())
	}
	return append(b, text...)
}

func appendList(b []byte, v []any, known facts.Stores) []byte {
	b = append(b, '[')
	for i, item := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendKnown(b, item, known)
	}
	return append(b, ']')
}

func appendObject(b []byte, v map[string]any, known facts.Stores) []byte {
	var room [16]string
	b = append(b, '{')
	for i, name := range SortedKeys(room[:0], v) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendText(b, name), ':')
		b = AppendKnown(b, v[name], known)
	}
	return append(b, '}')
}

// AppendText appends a text as JSON. What is not UTF-8 is replaced.
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
