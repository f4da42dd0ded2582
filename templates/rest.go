package templates

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Policies are the fields of a spec that say for which pods the template counts, and what
// becomes of a failure or a conflict.
type Policies struct {
	Required, InjectByDefault, Suspend, Overridable bool
	OnConflict                                      v1alpha1.ConflictPolicy
	OnError                                         v1alpha1.ErrorPolicy
	PodResources                                    v1alpha1.PodResourcesPolicy
	OS                                              []v1alpha1.OperatingSystem
}

// origin is what a template at rest is compiled from again.
type origin struct {
	text    []byte
	options Options

	// awake is the template as it was compiled, or nil while it is at rest. used is set
	// by whoever needs it.
	awake atomic.Pointer[Template]
	used  atomic.Bool
	mu    sync.Mutex // one compiles
}

// Policies returns what the spec says without parameters, expressions and fragment. It wakes
// no template.
func (t *Template) Policies() Policies {
	return Policies{
		Required: t.spec.Required, InjectByDefault: t.spec.InjectByDefault, Suspend: t.spec.Suspend, Overridable: t.spec.Overridable,
		OnConflict: t.spec.OnConflict, OnError: t.spec.OnError, PodResources: t.spec.PodResources, OS: t.spec.OS,
	}
}

// CanRest returns a template that is the same, and that [Template.Rest] can put to rest.
// The manifest and the options are those that the template was compiled from; the caller
// must not change the text. To have the template awake takes about twenty times as much
// memory as its manifest, and most templates of a large cluster are asked for by few pods
// or none.
func (t *Template) CanRest(text []byte, o Options) *Template {
	below := &Template{
		name: t.name, hash: t.hash, prefix: t.prefix, annotations: t.annotations,
		availableTo: t.availableTo, matchNamespace: t.matchNamespace, matchPod: t.matchPod, namespaceKeys: t.namespaceKeys, verify: t.verify,
		spec: v1alpha1.SidecarTemplateSpec{
			Order: t.spec.Order, Match: t.spec.Match, Required: t.spec.Required, InjectByDefault: t.spec.InjectByDefault, Suspend: t.spec.Suspend,
			Overridable: t.spec.Overridable, OnConflict: t.spec.OnConflict, OnError: t.spec.OnError, PodResources: t.spec.PodResources, OS: t.spec.OS,
		},
		origin: &origin{text: text, options: o},
	}
	if t.spec.Required {
		below.spec.Inject = t.spec.Inject // what [Entry.Own] reads must not depend on anything
	}
	below.origin.awake.Store(t)
	return below
}

// Rest gives back the memory of what only rendering needs, unless the template was used
// since the last call. It reports whether the template is at rest. The next use compiles
// it again, which takes some milliseconds. A template that cannot rest never is at rest.
func (t *Template) Rest() bool {
	o := t.origin
	if o == nil {
		return false
	}
	if o.used.Swap(false) {
		return false
	}
	o.awake.Store(nil)
	return true
}

// AtRest reports whether the next use of the template compiles it.
func (t *Template) AtRest() bool { return t.origin != nil && t.origin.awake.Load() == nil }

// full returns the template with all that was compiled, and wakes it if it is at rest. Where
// that fails, it returns one without parameters and fragment.
func (t *Template) full() *Template {
	awake, err := t.wake()
	if err != nil {
		return &Template{name: t.name, hash: t.hash, spec: t.spec, parameters: &param.Set{}}
	}
	return awake
}

// wake returns the template with all that was compiled. A template at rest that does not compile
// stays at rest, and the next use tries again.
func (t *Template) wake() (*Template, error) {
	o := t.origin
	if o == nil {
		return t, nil
	}
	if !o.used.Load() {
		o.used.Store(true)
	}
	if awake := o.awake.Load(); awake != nil {
		return awake, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if awake := o.awake.Load(); awake != nil {
		return awake, nil
	}
	options := o.options
	options.again = true
	awake, _, err := Compile(o.text, options)
	if err != nil {
		return nil, fmt.Errorf("template %s cannot be compiled again, though it has compiled before: %w", t.name, err)
	}
	awake.hash = t.hash
	o.awake.Store(awake)
	return awake, nil
}
