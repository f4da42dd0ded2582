package templates

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/show"
)

// Exception exempts pods from a required template until a time.
type Exception struct {
	Name, Reason string
	// Until is the end of the exception. A pod that is created at that time is not exempt.
	Until          time.Time
	namespace, pod labels.Selector
}

// Ended reports whether the exception has ended at a time.
func (e Exception) Ended(now time.Time) bool { return !now.Before(e.Until) }

// Selects reports whether both selectors select a pod, at any time.
func (e Exception) Selects(namespace, pod map[string]string) bool {
	return e.namespace.Matches(labels.Set(namespace)) && e.pod.Matches(labels.Set(pod))
}

// String names the exception, with its end and its reason.
func (e Exception) String() string {
	return fmt.Sprintf("until %s by the exception %s: %s", e.Until.UTC().Format(time.RFC3339), e.Name, e.Reason)
}

// Sentence says in a sentence that the exception selects a pod, at a time.
func (e Exception) Sentence(now time.Time) string {
	if e.Ended(now) {
		return "it was excepted " + e.String()
	}
	return "it is required here, and the pod is excepted " + e.String()
}

// Exceptions are those of one template.
type Exceptions []Exception

// Find returns the exception that selects a pod and ends last, nil for none.
func (all Exceptions) Find(namespace, pod map[string]string) *Exception {
	var last *Exception
	for i := range all {
		if e := &all[i]; e.Selects(namespace, pod) && (last == nil || e.Until.After(last.Until)) {
			last = e
		}
	}
	return last
}

// Exceptions returns the template's exceptions, in the manifest's order, including ended ones. The caller must
// not change them.
func (t *Template) Exceptions() Exceptions { return t.exceptions }

// Exceptions returns the known exceptions of the template.
func (e Entry) Exceptions() Exceptions {
	if t := e.Known(); t != nil {
		return t.exceptions
	}
	return nil
}

// mostExceptions bounds the exceptions of a template, as in the CRD.
const mostExceptions = 64

// mostReason bounds the characters of an exception's reason, as in the CRD.
const mostReason = 256

// exceptions checks and compiles the exceptions.
func (c *compiler) exceptions(t *Template, at *manifest.Path) {
	if len(t.spec.Exceptions) > 0 && !t.spec.Required {
		c.problem(at, "is for required templates: other templates let pods opt out")
	}
	if n := len(t.spec.Exceptions); n > mostExceptions {
		c.problem(at, fmt.Sprintf("has %d exceptions; allowed are %d", n, mostExceptions))
	}
	seen := map[string]bool{}
	for i, declared := range t.spec.Exceptions {
		at := at.Item(i)
		e := Exception{Name: declared.Name, Reason: declared.Reason}
		switch {
		case declared.Name == "":
			c.problem(at, "an exception needs a name")
		case !templateName.MatchString(declared.Name):
			c.problem(at.Field("name"), fmt.Sprintf("is %s; want a DNS label: lower case letters, digits and -", show.Value(declared.Name)))
		case seen[declared.Name]:
			c.problem(at.Field("name"), fmt.Sprintf("the exception %s is there twice", show.Value(declared.Name)))
		}
		seen[declared.Name] = true
		switch {
		case strings.TrimSpace(declared.Reason) == "":
			c.problem(at, "an exception needs a reason: the warning about an excepted workload has it")
		case utf8.RuneCountInString(declared.Reason) > mostReason:
			c.problem(at.Field("reason"), fmt.Sprintf("has %d characters; want %d at most, since a warning has to hold it", utf8.RuneCountInString(declared.Reason), mostReason))
		}
		e.namespace = c.namespaceSelector(t, declared.NamespaceSelector, at.Field("namespaceSelector"))
		e.pod = c.podSelector(t, declared.PodSelector, at.Field("podSelector"))
		if e.namespace.Empty() && e.pod.Empty() {
			c.problem(at, "selects every pod that the template matches: name a namespaceSelector or a podSelector (required: false is for all)")
		}
		var err error
		if declared.Until == "" {
			c.problem(at, "an exception needs an end: until, such as 2027-03-31T00:00:00Z")
		} else if e.Until, err = time.Parse(time.RFC3339, declared.Until); err != nil {
			c.problem(at.Field("until"), fmt.Sprintf("is %s; want a time with its zone, as RFC 3339 has it: 2027-03-31T00:00:00Z", show.Value(declared.Until)))
		} else if year := e.Until.UTC().Year(); year < 1 || year > 9999 {
			c.problem(at.Field("until"), fmt.Sprintf("is %s, in the year %d of UTC; allowed are 1 to 9999, which policies and JSON can write", show.Value(declared.Until), year))
		}
		t.exceptions = append(t.exceptions, e)
	}
}
