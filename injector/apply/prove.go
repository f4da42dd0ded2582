package apply

import (
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Prove tells which of the record the plan confirms. The plan has to be made of
// the base pod that the record gives. A place is confirmed if the plan wants
// something there and the pod has it: then the pod could have come by an honest
// injection of that base pod, so a forger gains nothing by the record.
//
// A place that the pod does not have, and where nothing stood before, hides
// nothing and means nothing.
func Prove(rec record.Record, plan merge.Plan, pod map[string]any) Proof {
	p := &prover{allWanted: true, allConfirmed: true}
	wanted, confirmed := p.place(podschema.Pod(), rec.Root, plan.Root, plan.Pod, pod)
	proof := Proof{Wanted: rec, Confirmed: rec, AllWanted: p.allWanted, AllConfirmed: p.allWanted && p.allConfirmed}
	if !proof.AllConfirmed {
		proof.Wanted.Root, proof.Confirmed.Root = orNothing(wanted), orNothing(confirmed)
	}
	return proof
}

// Proof is how far a plan bears out a record.
type Proof struct {
	// Wanted is the record without the places that the plan wants nothing in.
	// AllWanted reports that there are no such places.
	Wanted    record.Record
	AllWanted bool
	// Confirmed is the record without those, and without the places where the pod
	// has something else than the plan wants. AllConfirmed reports that there are
	// neither.
	Confirmed    record.Record
	AllConfirmed bool
}

func orNothing(p *record.Place) *record.Place {
	if p == nil {
		return &record.Place{}
	}
	return p
}

type prover struct{ allWanted, allConfirmed bool }

// place returns what of a place the plan wants, and what of it the pod confirms.
// w and v are its value in the plan's pod and in the pod.
func (p *prover) place(t *podschema.Type, r *record.Place, c *merge.Change, w, v any) (wanted, confirmed *record.Place) {
	if r.Owns() {
		return p.owned(t, r, c, w, v)
	}
	wanted, confirmed = &record.Place{Made: r.Made, Was: r.Was}, &record.Place{Made: r.Made, Was: r.Was}
	id, keyed := t.Identity()
	for _, removed := range r.Removed {
		key, ok := id.Key(removed.Value)
		if child := c.Child(key); !keyed || !ok || child == nil || child.Do != merge.Remove {
			p.allWanted = false
			continue
		}
		wanted.Removed, confirmed.Removed = append(wanted.Removed, removed), append(confirmed.Removed, removed)
	}
	childOf := func(segment string) (*podschema.Type, any, any) {
		wo, _ := w.(map[string]any)
		vo, _ := v.(map[string]any)
		return t.Child(segment), wo[segment], vo[segment]
	}
	if keyed {
		wl, _ := w.([]any)
		vl, _ := v.([]any)
		wi, vi := podschema.IndexIn(id, wl, r.In), record.Match(r, id, vl, r.In)
		childOf = func(segment string) (*podschema.Type, any, any) {
			return id.Elem, item(wl, wi, segment), item(vl, vi, segment)
		}
	}
	for segment, child := range r.In {
		ct, cw, cv := childOf(segment)
		keptWanted, keptConfirmed := p.place(ct, child, c.Child(segment), cw, cv)
		if keptWanted != nil {
			wanted.Set(segment, keptWanted)
		}
		if keptConfirmed != nil {
			confirmed.Set(segment, keptConfirmed)
		}
	}
	return wanted, confirmed
}

func item(list []any, index map[string]int, key string) any {
	if i, ok := index[key]; ok {
		return list[i]
	}
	return nil
}

// owned is place for one that is Pillion's as a whole.
func (p *prover) owned(t *podschema.Type, r *record.Place, c *merge.Change, w, v any) (wanted, confirmed *record.Place) {
	switch {
	case v == nil && len(r.Was) == 0:
		return nil, nil
	case c == nil || c.Do == merge.Nothing || c.Do == merge.Make: // the plan wants no whole there
		p.allWanted = false
		return nil, nil
	case confirms(t, c, w, v):
		return r, r
	}
	p.allConfirmed = false
	return r, nil
}

func confirms(t *podschema.Type, c *merge.Change, w, v any) bool {
	switch c.Do {
	case merge.Renew:
		return true // the API server computes the value and refuses others
	case merge.Expect:
		return v == nil || c.Expected() == nil || podschema.Equal(t, v, c.Expected())
	case merge.Remove:
		return v == nil
	}
	if v == nil {
		return true // it hides nothing
	}
	if t.IsContainer() {
		return podschema.Equal(t, running(w), running(v))
	}
	return podschema.Equal(t, w, v)
}

// decisive are the fields of a container that decide what runs in it and what it
// can reach. In the others (resources, ports, the message of its end) admission
// changes every container.
var decisive = []string{"image", "command", "args", "workingDir", "env", "envFrom", "volumeMounts", "volumeDevices", "securityContext",
	"lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "restartPolicy"}

// running returns a container's decisive fields, without the mount of the service
// account's token, which the API server adds to every container.
func running(v any) map[string]any {
	container, _ := v.(map[string]any)
	some := map[string]any{}
	for _, name := range decisive {
		if value, ok := container[name]; ok {
			some[name] = value
		}
	}
	if mounts := merge.WithoutToken(some["volumeMounts"]); len(mounts) > 0 {
		some["volumeMounts"] = mounts
	} else {
		delete(some, "volumeMounts")
	}
	return some
}
