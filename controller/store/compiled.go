package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/templates"
)

// compiled is an object with the result of its compilation.
type compiled struct {
	*Object
	// template is the last good version, or nil.
	template *templates.Template
	// reason is [Compiled], or the reason why the newest spec is not in force. err is its message.
	reason string
	err    error
	// warnings are about the newest spec.
	warnings []templates.Warning
	// lost means that the object was deleted with its CRD, and that the template stays in force.
	lost bool
}

// compileObject compiles an object. before is its previous result, or nil.
func compileObject(o *Object, before *compiled, options templates.Options) *compiled {
	if before != nil && !before.lost && before.reason != TooMany && before.sameSpec(o) {
		now := *before
		now.Object, now.warnings = o, nil
		return &now
	}
	now := &compiled{Object: o, reason: Compiled}
	options.Source = o.Source()
	now.template, now.warnings, now.err = templates.Compile(o.Manifest, options)
	if now.err != nil {
		now.reason = CompileFailed
		if before != nil {
			now.template = before.template
		}
	}
	return now
}

// addLost adds to now the objects of before that were deleted with their CRD.
func addLost(ctx context.Context, f *follower, now, before map[string]*compiled) error {
	var isLost func(*Object) bool
	for key, c := range before {
		if now[key] != nil || c.template == nil {
			continue
		}
		if !c.lost {
			if isLost == nil {
				var err error
				if isLost, err = f.deletedWithCRD(ctx); err != nil {
					return err
				}
			}
			if !isLost(c.Object) {
				continue
			}
		}
		lost := *c
		lost.lost = true
		lost.err = fmt.Errorf("%s was deleted together with its CRD, so its last version stays in force: apply the CRD and the object again; to remove the template, delete the object then", c.Source())
		now[key] = &lost
	}
	return nil
}

// entry returns the object's entry in the set. before is the entry in force.
func (c *compiled) entry(before templates.Entry, now time.Time) templates.Entry {
	e := templates.Entry{Name: c.Name, Namespace: c.Namespace, Template: c.template, Err: c.err}
	switch {
	case before.Template == nil || e.Template == nil:
	case before.Template.Hash() == e.Template.Hash():
		e.Previous, e.Since = before.Previous, before.Since
	default:
		e.Previous, e.Since = before.Template, now
	}
	return e
}

// verdict returns the verdict for the object's status.
func (c *compiled) verdict() Verdict {
	v := Verdict{Object: *c.Object, Reason: c.reason, Message: inForce}
	if c.err != nil {
		v.Message = c.err.Error()
	}
	if c.reason == Compiled {
		v.Hash, v.Template = c.template.Hash(), c.template
	}
	return v
}

// Compile returns the set of a list of SidecarTemplates.
func Compile(objects []unstructured.Unstructured, options templates.Options) *templates.Set {
	var entries []templates.Entry
	for i := range objects {
		entries = append(entries, compileObject(NewObject(&objects[i]), nil, options).entry(templates.Entry{}, time.Time{}))
	}
	return templates.NewSet(entries)
}

func sameEntry(a, b templates.Entry) bool {
	return a.Name == b.Name && a.Template == b.Template && errorText(a.Err) == errorText(b.Err) && brokenVersion(a.Err) == brokenVersion(b.Err)
}

// brokenVersion returns the broken template of an error. Each compilation returns another one.
func brokenVersion(err error) *templates.Template {
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		return mistakes.Broken
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func hash(t *templates.Template) string {
	if t == nil {
		return ""
	}
	return t.Hash()
}
