package required

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Allowed is what spec.verify of a template lets others do to its sidecars and mounts.
type Allowed interface {
	AllowsImage(image string) bool
	AllowsEnv(name string) bool
	AllowsMount(path string) bool
	AllowsResources() bool
	AllowsProbes() bool
}

// Difference is one way in which a pod is not what a required template makes of
// it.
type Difference struct {
	Template string
	// Path is where, as people write it, and Text what is wrong there.
	Path, Text string
	// Since: the record says that Pillion wrote the place as it is wanted, so
	// somebody changed it since, unless the record is forged.
	Since bool
}

// String returns the difference as a part of a sentence.
func (d Difference) String() string {
	return d.Path + " " + d.Text
}

// Differences compares the pod with what the required templates of the plan
// want. Rec is the record that the pod came with; it decides nothing. The
// differences come in the order of the pod's fields, those of mounts that hide others last.
// The error is the context's, which has ended.
func Differences(ctx context.Context, plan merge.Plan, pod map[string]any, rec record.Record, allowed func(template string) Allowed) ([]Difference, error) {
	c := &comparison{ctx: ctx, pod: pod, allowed: allowed, required: map[string]bool{}}
	for _, f := range plan.Fragments {
		c.required[f.Template] = f.Required
	}
	c.walk(podschema.Pod(), plan.Root, plan.Pod, pod, rec.Root, nil)
	c.mounts(plan.Root.Child("spec"))
	return c.found, c.err
}

type comparison struct {
	ctx      context.Context
	err      error // the context's, once it has ended: nothing counts any more
	pod      map[string]any
	tokens   map[string]bool // the pod's volumes of a service account's token, by name
	allowed  func(template string) Allowed
	required map[string]bool
	found    []Difference
}

// interrupted reports whether the context has ended.
func (c *comparison) interrupted() bool {
	if c.err == nil {
		c.err = c.ctx.Err()
	}
	return c.err != nil
}

func (c *comparison) differs(template string, at []string, since bool, format string, args ...any) {
	c.found = append(c.found, Difference{Template: template, Path: podschema.Readable(at), Text: fmt.Sprintf(format, args...), Since: since})
}

// template returns the required template that wants a change, "" for none. Nil is no change.
func (c *comparison) template(change *merge.Change) string {
	if change == nil {
		return ""
	}
	for _, name := range change.Templates {
		if c.required[name] {
			return name
		}
	}
	return ""
}

// walk compares the places in a value of type t: w is it as wanted, p as it is.
func (c *comparison) walk(t *podschema.Type, change *merge.Change, w, p any, r *record.Place, at []string) {
	id, keyed := t.Identity()
	wanted, isList := w.([]any)
	if isList && keyed {
		c.list(id, change, wanted, p, r, at)
		return
	}
	wo, _ := w.(map[string]any)
	po, _ := p.(map[string]any)
	for _, name := range change.Segments() {
		here := append(at[:len(at):len(at)], name)
		value, have := po[name]
		c.place(t.Child(name), change.In[name], wo[name], value, have && value != nil, r.Child(name), here)
	}
}

// place compares one field or item, and the places in it.
func (c *comparison) place(t *podschema.Type, change *merge.Change, w, p any, have bool, r *record.Place, at []string) {
	template := c.template(change)
	desired := change.Desired()
	if template == "" || desired == nil {
		c.walk(t, change, w, p, r, at)
		return
	}
	since := r.Owns() && r.Same(record.Whole(nil, t, desired.Value))
	switch {
	case desired.Gone && have:
		c.differs(template, at, false, "is present, but the template removes it")
	case desired.Gone:
	case !have && (desired.Value == nil || change.Do == merge.Nothing && w == nil):
		// The template wants the default that an absent value means.
	case !have:
		c.differs(template, at, since, "is missing")
	case t.IsContainer():
		c.container(template, desired.Value, w, p, r, at)
	case !podschema.Equal(t, p, w) && !podschema.Equal(t, p, desired.Value):
		c.differs(template, at, since, "is %s; must be %s", podschema.Show(p), podschema.Show(desired.Value))
	default:
		c.walk(t, change, w, p, r, at)
	}
}

// list compares the items of a list. All items of one key have to be as wanted:
// an environment may have a variable twice. Where a template appends to a variable, the
// last one has to be.
func (c *comparison) list(id podschema.Identity, change *merge.Change, wanted []any, p any, r *record.Place, at []string) {
	items, _ := p.([]any)
	index := podschema.IndexIn(id, wanted, change.In)
	byKey := map[string][]any{}
	for i, key := range podschema.KeysIn(id, items, change.In) {
		byKey[key] = append(byKey[key], items[i])
	}
	for _, key := range change.Segments() {
		if c.interrupted() {
			return
		}
		child, here := change.In[key], append(at[:len(at):len(at)], key)
		var w any
		if i, ok := index[key]; ok {
			w = wanted[i]
		}
		if len(byKey[key]) == 0 {
			c.place(id.Elem, child, w, nil, false, r.Child(key), here)
		}
		same := byKey[key]
		if child.Joined() && len(same) > 0 {
			same = same[len(same)-1:] // the last one counts, and has the earlier ones in it
		}
		for _, item := range same {
			c.place(id.Elem, child, w, item, true, r.Child(key), here)
		}
	}
	c.positions(id, change, items, at)
}

// positions compares where items stand with where required templates want them.
func (c *comparison) positions(id podschema.Identity, change *merge.Change, items []any, at []string) {
	positions := change.Positions()
	inFront, asked := map[string]bool{}, map[string]bool{}
	for _, p := range positions {
		asked[p.Item], asked[p.Anchor] = true, true
		inFront[p.Item] = inFront[p.Item] || p.Kind == directive.First && c.required[p.Template]
	}
	if len(asked) == 0 {
		return
	}
	index := podschema.IndexIn(id, items, asked)
	// The first item that is not one of those in front: nothing behind it is.
	before := slices.IndexFunc(items, func(item any) bool {
		key, _ := id.Key(item)
		return !inFront[key]
	})
	for _, p := range positions {
		i, have := index[p.Item]
		j, there := index[p.Anchor]
		if !c.required[p.Template] || !have {
			continue
		}
		here := append(at[:len(at):len(at)], p.Item)
		switch {
		case p.Kind == directive.First && before >= 0 && before < i:
			key, _ := id.Key(items[before])
			c.differs(p.Template, here, false, "comes after %s, but must be first", keyName(key))
		case there && p.Kind == directive.Before && i > j:
			c.differs(p.Template, here, false, "must come before %s", keyName(p.Anchor))
		case there && p.Kind == directive.After && i < j:
			c.differs(p.Template, here, false, "must come after %s", keyName(p.Anchor))
		}
	}
}

func keyName(key string) string {
	if key == "" {
		return "an item without a name"
	}
	_, name, _ := strings.Cut(key, "=")
	return name
}

func objectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}
