package policy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/templates/show"
)

// Level is the object that has an annotation.
type Level string

// The two levels, as they are written in messages.
const (
	Pod       Level = "pod"
	Namespace Level = "namespace"
)

// Mode is the form of an inject annotation's value.
type Mode int

const (
	// Absent: there is no annotation.
	Absent Mode = iota
	// Default is "true".
	Default
	// Out is "false".
	Out
	// Names is a list of template names.
	Names
	// Relative is a list of +name and -name.
	Relative
)

// Annotation is a parsed inject annotation.
type Annotation struct {
	Mode Mode
	// Names are the listed names of mode Names, in the order given, each once.
	Names []string
	// Plus and Minus are the names of mode Relative.
	Plus, Minus []string
}

// requestsAny reports whether the annotation requests a template.
func (a Annotation) requestsAny() bool {
	return a.Mode == Default || a.Mode == Names || len(a.Plus) > 0
}

// maxNames bounds the names in one annotation. It is far above the number of
// templates that a pod can use, and keeps a hostile annotation from costing more
// than its bytes.
const maxNames = 64

// ParseAnnotation parses the value of an inject annotation. Present is false for an absent annotation. An empty
// value is an error. The error says which value is allowed at that level, and leaves the annotation's name to
// the caller.
func ParseAnnotation(value string, present bool, level Level) (Annotation, error) {
	if !present {
		return Annotation{}, nil
	}
	switch strings.TrimSpace(value) {
	case "":
		return Annotation{}, fmt.Errorf(emptyValue, allowed(level))
	case "true":
		return Annotation{Mode: Default}, nil
	case "false":
		return Annotation{Mode: Out}, nil
	}
	items := strings.Split(value, ",")
	if len(items) > maxNames {
		return Annotation{}, fmt.Errorf(tooManyNames, len(items), maxNames)
	}
	var ask Annotation
	for _, item := range items {
		if err := ask.add(strings.TrimSpace(item), level); err != nil {
			return Annotation{}, err
		}
	}
	for _, name := range ask.Plus {
		if slices.Contains(ask.Minus, name) {
			return Annotation{}, fmt.Errorf(addedAndRemoved, name)
		}
	}
	return ask, nil
}

func (a *Annotation) add(item string, level Level) error {
	mode, name, list := Names, item, &a.Names
	switch {
	case strings.HasPrefix(item, "+"):
		mode, name, list = Relative, item[1:], &a.Plus
	case strings.HasPrefix(item, "-"):
		mode, name, list = Relative, item[1:], &a.Minus
	}
	if mode == Relative && level == Namespace {
		return fmt.Errorf(relativeItem, show.Value(item), allowed(level))
	}
	if name == "true" || name == "false" {
		return fmt.Errorf(wordInList, name, allowed(level))
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf(notAName, show.Value(item), allowed(level), didYouMean(item))
	}
	if a.Mode != Absent && a.Mode != mode {
		return fmt.Errorf(mixedNames, allowed(level))
	}
	a.Mode = mode
	if !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
	return nil
}

// meant has words that people write for true and false, in lower case.
var meant = map[string]string{
	"true": "true", "yes": "true", "y": "true", "on": "true", "1": "true", "enabled": "true", "enable": "true", "t": "true",
	"false": "false", "no": "false", "n": "false", "off": "false", "0": "false", "disabled": "false", "disable": "false", "f": "false",
}

// wordMeant returns "true" or "false" for a word that people write for it, and "" for any other.
func wordMeant(name string) string { return meant[strings.ToLower(strings.Trim(name, "\"'"))] }
