package rawjson

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// List reads a list of the API item by item, so that only one is in memory. It calls metadata with the text of
// the list's own metadata, and item with the text of each item. The text is valid until they return. Their
// errors end the list.
func List(r io.Reader, metadata, item func(text []byte) error) error {
	d := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	value := func(visit func(text []byte) error) error {
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		return visit(text)
	}
	return Members(d, '{', func(name string) error {
		switch {
		case name == "metadata":
			return value(metadata)
		case name == "items" && d.PeekKind() == '[':
			return Members(d, '[', func(string) error { return value(item) })
		}
		return d.SkipValue()
	})
}

// Members calls each with the name of each member of an object, or with "" for each item of a list. each must
// read the value.
func Members(d *jsontext.Decoder, kind jsontext.Kind, each func(name string) error) error {
	begin, err := d.ReadToken()
	if err != nil {
		return err
	}
	if begin.Kind() != kind {
		return fmt.Errorf("%v stands where %v is expected", begin.Kind(), kind)
	}
	for d.PeekKind() != kind+2 { // } comes two after {, and ] two after [
		name := ""
		if kind == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		if err := each(name); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}
