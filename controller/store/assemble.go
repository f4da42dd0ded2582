package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/templates"
)

// compiler turns the units of all sources into entries, and remembers between two
// calls what need not be compiled again. It is used by one goroutine at a time.
type compiler struct {
	options templates.Options
	// done has the units of the last call that have documents, by their source.
	done map[string]compiledUnit
	// names has, for each unit of the last call, the templates that it stood for.
	names map[string][]string
}

// compiledUnit is a unit's text, and what became of its documents.
type compiledUnit struct {
	data    []byte
	results []compiled
}

// compiled is the result of compiling one document.
type compiled struct {
	// name is the template's, or empty when it cannot be told. place is where the
	// document has it.
	name, place string
	// text is the document, of a unit that the cluster is to have mirrors of.
	text     []byte
	template *templates.Template
	err      error
}

// claim is a unit's claim to a name.
type claim struct {
	source, from string
	compiled
}

func newCompiler(o templates.Options) *compiler {
	return &compiler{options: o, done: map[string]compiledUnit{}, names: map[string][]string{}}
}

// assembled is what a call of assemble gives.
type assembled struct {
	set *templates.Set
	// verdicts are on each object of the cluster, in the order of their units.
	verdicts []Verdict
	// served are the templates that the cluster is to have mirrors of, by name.
	served []Served
	// warnings are those of what was compiled just now.
	warnings []templates.Warning
}

// assemble makes the set of units in the order of their precedence. before is the set in
// force, from which bad manifests keep their last good template.
func (c *compiler) assemble(units []Unit, before *templates.Set) assembled {
	a := assembly{before: before, entries: map[string]*templates.Entry{}, owners: map[string]string{}}
	done, names := make(map[string]compiledUnit, len(units)), map[string][]string{}
	unreadable, from := map[string]error{}, map[string]string{}
	var warnings []templates.Warning
	verdicts := make([]Verdict, 0, len(units))
	for _, u := range units {
		results, warned := c.compile(u, done)
		warnings = append(warnings, warned...)
		if u.Object != nil {
			verdicts = append(verdicts, a.verdict(u, results))
		}
		for _, o := range results {
			if o.name == "" {
				unreadable[u.Source], from[u.Source] = errors.Join(unreadable[u.Source], o.err), u.From
				continue
			}
			a.add(claim{u.Source, u.From, o})
			names[u.Source] = append(names[u.Source], o.name)
		}
	}
	// Whatever is not known by name comes last: by then it is known which of the
	// templates that the unit stood for have moved elsewhere.
	for _, source := range slices.Sorted(maps.Keys(unreadable)) {
		kept := a.keep(source, from[source], c.names[source], unreadable[source])
		names[source] = append(names[source], kept...)
	}
	c.done, c.names = done, names
	set := a.set()
	for i := range verdicts {
		v := &verdicts[i]
		v.Share = judged(set, v.Object.Name, &v.Hash, &v.Reason, &v.Message)
	}
	for i := range a.served {
		s := &a.served[i]
		s.Share = judged(set, s.Name, &s.Hash, &s.Reason, &s.Message)
	}
	return assembled{set, verdicts, a.served, warnings}
}

// compile returns the result for each document of a unit, in order.
func (c *compiler) compile(u Unit, done map[string]compiledUnit) ([]compiled, []templates.Warning) {
	if u.Err != nil {
		return []compiled{{err: u.Err}}, nil
	}
	if last := c.done[u.Source]; len(last.results) > 0 && bytes.Equal(last.data, u.Data) {
		done[u.Source] = compiledUnit{u.Data, last.results} // one copy of the text is enough
		return last.results, nil
	}
	documents := templates.ParseFile(u.Data)
	if len(documents) == 0 {
		return []compiled{{err: fmt.Errorf("%s: holds no manifest; delete the file if that is meant", u.Source)}}, nil
	}
	var results []compiled
	var warnings []templates.Warning
	for _, d := range documents {
		o, warned := c.one(u.Source, d)
		if u.From != "" {
			o.text = d.Manifest
		}
		results, warnings = append(results, o), append(warnings, warned...)
	}
	done[u.Source] = compiledUnit{u.Data, results}
	return results, warnings
}

// one compiles a document.
func (c *compiler) one(source string, d templates.Document) (compiled, []templates.Warning) {
	options := c.options
	options.Source, options.FirstLine = source, d.Line
	t, warnings, err := templates.Compile(d.Manifest, options)
	if err == nil {
		return compiled{name: t.Name(), place: templates.NamedAt(d, source), template: t}, warnings
	}
	var bad *templates.CompileError
	if errors.As(err, &bad) {
		return compiled{name: bad.Template, place: templates.NamedAt(d, source), err: err}, warnings
	}
	return compiled{err: err}, warnings
}

// assembly is a set in the making.
type assembly struct {
	before  *templates.Set
	entries map[string]*templates.Entry
	// owners has the place of the manifest that each name belongs to.
	owners map[string]string
	served []Served
}

// add gives a name to the first unit that claims it, and leaves an error there for
// each other one.
func (a *assembly) add(c claim) {
	if e, taken := a.entries[c.name]; taken {
		e.Err = errors.Join(e.Err, fmt.Errorf("%s: the name %s is taken by %s, which is in force; rename or delete this one", c.place, c.name, a.owners[c.name]))
		return
	}
	e := &templates.Entry{Name: c.name, Source: c.source, Template: c.template, Err: c.err}
	if e.Template == nil {
		e.Template = a.lastGood(c.name)
	}
	a.entries[c.name], a.owners[c.name] = e, c.place
	if c.from != "" && c.name != c.source {
		a.served = append(a.served, c.served())
	}
}

// served is what a mirror shows of the manifest that a name belongs to.
func (c claim) served() Served {
	s := Served{Name: c.name, From: c.from, Source: c.source, Manifest: c.text, Reason: Compiled, Message: inForce}
	if c.err != nil {
		s.Reason, s.Message = CompileFailed, c.err.Error()
	} else {
		s.Hash = c.template.Hash()
	}
	return s
}

// verdict judges an object before its claim is added. It depends on nothing that
// only this replica knows, so that all replicas say the same.
func (a *assembly) verdict(u Unit, results []compiled) Verdict {
	v := Verdict{Object: *u.Object, From: FromCluster, Reason: Compiled, Message: inForce}
	for _, o := range results {
		if o.err != nil {
			v.Reason, v.Message = CompileFailed, o.err.Error()
			return v
		}
		v.Hash, v.Template = o.template.Hash(), o.template
	}
	if owner, taken := a.owners[u.Object.Name]; taken {
		v.Reason, v.Message = NameTaken, fmt.Sprintf("The name %s is taken by %s, which is in force; rename or delete this object.", u.Object.Name, owner)
	}
	return v
}

func (a *assembly) lastGood(name string) *templates.Template {
	e, _ := a.before.Get(name)
	return e.Template
}

// keep leaves the templates that a unit stood for in force while it cannot be
// read, and returns them. If there is none the error gets an entry under the
// unit's own name, which no pod can ask for.
func (a *assembly) keep(source, from string, names []string, err error) []string {
	var kept []string
	for _, name := range names {
		if _, taken := a.entries[name]; !taken {
			a.add(claim{source, from, compiled{name: name, place: source, err: err}})
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		a.add(claim{source, "", compiled{name: source, place: source, err: err}})
	}
	return kept
}

func (a *assembly) set() *templates.Set {
	entries := make([]templates.Entry, 0, len(a.entries))
	for _, name := range slices.Sorted(maps.Keys(a.entries)) {
		entries = append(entries, a.after(*a.entries[name]))
	}
	return templates.NewSet(entries)
}

// after returns an entry with the version before, for the pods that were mutated with it and are verified now.
func (a *assembly) after(e templates.Entry) templates.Entry {
	was, _ := a.before.Get(e.Name)
	switch {
	case was.Template == nil || e.Template == nil:
	case was.Template.Hash() == e.Template.Hash():
		e.Previous, e.Since = was.Previous, was.Since
	default:
		e.Previous, e.Since = was.Template, time.Now()
	}
	return e
}
