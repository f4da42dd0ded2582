package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads a JSON text that is in memory, once, from the beginning to the end. It treats
// duplicate names, case and invalid UTF-8 as kube-apiserver does: the last of several counts,
// names differ in case, and what is not UTF-8 is replaced.
type scanner struct {
	json   *jsontext.Decoder
	buffer bytes.Buffer
	text   []byte
}

var scanners = sync.Pool{New: func() any { return &scanner{json: jsontext.NewDecoder(nothing{})} }}

// nothing is an empty text.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// scan has read read the one value that the text is.
func scan(text []byte, read func(*scanner) error) error {
	s := scanners.Get().(*scanner)
	s.text, s.buffer = text, *bytes.NewBuffer(text)
	s.json.Reset(&s.buffer, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := read(s)
	if err == nil {
		if _, err = s.json.ReadToken(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("there is more after the JSON value")
		}
	}
	// A pool must not keep the text.
	s.json.Reset(nothing{})
	s.text, s.buffer = nil, bytes.Buffer{}
	scanners.Put(s)
	return err
}

// object reads an object, or null. It calls member for each member, by its name, which then
// reads the value.
func (s *scanner) object(member func(name []byte) error) error {
	switch kind := s.json.PeekKind(); kind {
	case 'n':
		return s.json.SkipValue()
	case '{':
	default:
		return s.unexpected(kind, "an object")
	}
	if _, err := s.json.ReadToken(); err != nil {
		return err
	}
	for s.json.PeekKind() != '}' {
		name, err := s.json.ReadValue()
		if err != nil {
			return err
		}
		if name, err = unquoted(name); err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := s.json.ReadToken()
	return err
}

// unexpected returns the error for a value that is not what is wanted. Where there is no
// value at all, it is the text's own error.
func (s *scanner) unexpected(kind jsontext.Kind, want string) error {
	value, err := s.json.ReadValue()
	if err != nil {
		return err
	}
	return fmt.Errorf("%.64s at %s: want %s", value, s.json.StackPointer(), want)
}

// unquoted returns what a JSON string stands for. It shares memory with the string where it
// can.
func unquoted(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// string reads a text, or null, which leaves the text as it is.
func (s *scanner) string(into *string) error {
	kind := s.json.PeekKind()
	if kind == 'n' {
		return s.json.SkipValue()
	}
	if kind != '"' {
		return s.unexpected(kind, "text")
	}
	t, err := s.json.ReadToken()
	if err == nil {
		*into = t.String()
	}
	return err
}

// bool reads a truth value, or null.
func (s *scanner) bool(into *bool) error {
	kind := s.json.PeekKind()
	switch kind {
	case 'n':
		return s.json.SkipValue()
	case 't', 'f':
		*into = kind == 't'
		return s.json.SkipValue()
	}
	return s.unexpected(kind, "true or false")
}

// part reads any value, and returns its text.
func (s *scanner) part(into *part) error {
	return s.spanned(into, s.json.SkipValue)
}

// spanned has read read one value, and returns the value's text.
func (s *scanner) spanned(into *part, read func() error) error {
	s.json.PeekKind()
	begin := s.json.InputOffset()
	if err := read(); err != nil {
		return err
	}
	// What separates the value from its name stands before it.
	*into = part(bytes.TrimLeft(s.text[begin:s.json.InputOffset()], ": \t\r\n"))
	return nil
}

// texts reads an object of texts, or null, which gives a nil map.
func (s *scanner) texts(into *map[string]string) error {
	*into = nil
	if s.json.PeekKind() == '{' {
		*into = map[string]string{}
	}
	return s.object(func(name []byte) error {
		key, value := string(name), ""
		err := s.string(&value)
		(*into)[key] = value
		return err
	})
}

// list reads a list, or null. It calls item for each item, which reads it.
func (s *scanner) list(item func() error) error {
	switch kind := s.json.PeekKind(); kind {
	case 'n':
		return s.json.SkipValue()
	case '[':
	default:
		return s.unexpected(kind, "a list")
	}
	if _, err := s.json.ReadToken(); err != nil {
		return err
	}
	for s.json.PeekKind() != ']' {
		if err := item(); err != nil {
			return err
		}
	}
	_, err := s.json.ReadToken()
	return err
}

// count reads any value, and returns how many items it has if it is a list.
func (s *scanner) count(into *int) error {
	*into = 0
	if s.json.PeekKind() != '[' {
		return s.json.SkipValue()
	}
	return s.list(func() error {
		*into++
		return s.json.SkipValue()
	})
}
