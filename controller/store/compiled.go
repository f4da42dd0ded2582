package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/templates"
)

// compiled is an object with what became of its spec.
type compiled struct {
	*Object
	// template is the last good version, nil if there is none.
	template *templates.Template
	// reason is [Compiled], or why the newest spec is not in force, and err says so in words.
	reason string
	err    error
	// warnings are those of the newest spec.
	warnings []templates.Warning
	// lost: the object went with its CRD, and the template stays in force.
	lost bool
}

// compileObject compiles an object. before is what is known of it, nil for nothing.
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

// withLost adds to objects those of before that went with their CRD.
func withLost(ctx context.Context, f *follower, now, before map[string]*compiled) error {
	var went func(*Object) bool
	for key, c := range before {
		if now[key] != nil || c.template == nil {
			continue
		}
		if !c.lost {
			if went == nil {
				var err error
				if went, err = f.wentWithCRD(ctx); err != nil {
					return err
				}
			}
			if !went(c.Object) {
				continue
			}
		}
		lost := *c
		lost.lost = true
		lost.err = fmt.Errorf("the CRD was deleted, and %s with it; the last version stays in force until the object is back: apply the CRD and the object again, or, if it is to go, apply it and delete it", c.Source())
		now[key] = &lost
	}
	return nil
}

// entry returns what the set has of the object. before is the entry that is in force.
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

// verdict returns what there is to say in the object's status.
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

// Compile returns the set of the cluster's templates, of a list of their objects.
func Compile(objects []unstructured.Unstructured, options templates.Options) *templates.Set {
	var entries []templates.Entry
	for i := range objects {
		entries = append(entries, compileObject(NewObject(&objects[i]), nil, options).entry(templates.Entry{}, time.Time{}))
	}
	return templates.NewSet(entries)
}

func sameEntry(a, b templates.Entry) bool {
	return a.Name == b.Name && a.Template == b.Template && errorText(a.Err) == errorText(b.Err) && broken(a.Err) == broken(b.Err)
}

// broken is what an error tells of its template: another one whenever the spec was compiled anew.
func broken(err error) *templates.Template {
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
