package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// FieldError says that a type of Kubernetes cannot hold a value. API servers cannot decode it, either: an
// opt-out without quotes is no annotation.
type FieldError struct {
	// Field is the place of the value, such as spec.containers[0].ports[0].containerPort.
	Field string
	Value any
	// Err is the decoder's.
	Err error
}

// Error names the field and the value.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message() }

// Message is the error without the field.
func (e *FieldError) Message() string {
	text, _ := json.Marshal(e.Value)
	message := fmt.Sprintf("%s: %v", text, e.Err)
	switch e.Value.(type) {
	case map[string]any, []any:
		return message
	}
	if strings.HasSuffix(message, "of type string") {
		message += "; quote it"
	}
	return message
}

// Unwrap returns the decoder's error.
func (e *FieldError) Unwrap() error { return e.Err }

// Decode decodes an object into a type of Kubernetes. The error is a [FieldError] about the first field,
// by name, with a value that the type cannot hold.
func Decode[T any](object map[string]any) (*T, error) {
	decoded, err := convert[T](object)
	if err == nil {
		return decoded, nil
	}
	found := &FieldError{}
	found.Field, found.Value, found.Err = search(object, func(part any) error {
		_, err := convert[T](part)
		return err
	})
	found.Field = strings.TrimPrefix(found.Field, ".")
	return nil, found
}

func convert[T any](value any) (*T, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var decoded T
	return &decoded, kjson.UnmarshalCaseSensitivePreserveInts(data, &decoded)
}

// search finds the value in a part of an object for which decode fails. Decode gets the part alone, inside the
// objects that surround it.
func search(part any, decode func(part any) error) (field string, value any, err error) {
	if err = decode(part); err == nil {
		return "", nil, nil
	}
	switch part := part.(type) {
	case map[string]any:
		if decode(map[string]any{}) != nil {
			break // the type wants something else
		}
		for _, key := range slices.Sorted(maps.Keys(part)) {
			step := "." + key
			if strings.ContainsAny(key, "./") {
				step = "[" + key + "]"
			}
			if below, found, err := search(part[key], func(item any) error { return decode(map[string]any{key: item}) }); err != nil {
				return step + below, found, err
			}
		}
	case []any:
		if decode([]any{}) != nil {
			break // the type wants something else
		}
		for i := range part {
			if below, found, err := search(part[i], func(item any) error { return decode([]any{item}) }); err != nil {
				return fmt.Sprintf("[%d]%s", i, below), found, err
			}
		}
	}
	return "", part, err
}
