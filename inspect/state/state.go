package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/templates/show"
)

// Path is where a replica's admin port has the state.
const Path = "/state"

// State is what a replica says of itself.
type State struct {
	Version string `json:"version"`
	// Templates are those that the replica applies, with their hashes.
	Templates map[string]string `json:"templates"`
	// Broken are the templates whose newest version has a mistake, so that an older one is in force.
	Broken []string `json:"broken,omitempty"`

	// CacheAgeSeconds says how long ago each cache was last known to be right.
	CacheAgeSeconds map[string]float64 `json:"cacheAgeSeconds,omitempty"`
	// EnforcementProven reports whether the replica has proven that pods go through Pillion. Nil: it
	// does not say.
	EnforcementProven *bool `json:"enforcementProven,omitempty"`
	// PodsLastLookedAt is when the replica last counted the pods without their sidecars.
	PodsLastLookedAt *time.Time `json:"podsLastLookedAt,omitempty"`

	// FailingLabels has on how many namespaces a label cannot be written, by the label.
	FailingLabels map[string]int `json:"failingLabels,omitempty"`

	Certificates Certificates `json:"certificates"`
}

// Certificates are what a replica says of its certificates.
type Certificates struct {
	// Ends is when the served certificate ends. Nil: not known.
	Ends *time.Time `json:"ends,omitempty"`
	// Problems are what fails at present, as OPERATION: OBJECT.
	Problems []string `json:"problems,omitempty"`
	// Published are the webhook configurations that have to verify the certificate.
	Published []Published `json:"published,omitempty"`
}

// Published is a webhook configuration.
type Published struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Verifies reports whether the caBundle in every entry verifies the served certificate.
	Verifies bool `json:"verifies"`
}

// Replica is what one replica answered.
type Replica struct {
	Name string `json:"name"`
	// Created is when its pod was made; zero if it is not known.
	Created time.Time `json:"created,omitzero"`
	// Ready: the replica is ready, and gave its state.
	Ready bool `json:"ready"`
	// Missing says why the replica is not ready; "" if it is.
	Missing string `json:"missing,omitempty"`
	// Answers reports whether the replica gave its state.
	Answers bool `json:"answers"`
	State
}

// Problems are what fails at present. The replica may be ready all the same.
func (r Replica) Problems() []string {
	all := slices.Clone(r.Certificates.Problems)
	for _, label := range slices.Sorted(maps.Keys(r.FailingLabels)) {
		all = append(all, fmt.Sprintf("label %s: cannot be written on %d namespaces, so they get no sidecars or are not enforced", label, r.FailingLabels[label]))
	}
	return all
}

// Decode reads a state. Another program may have answered, so texts that would change a terminal
// are escaped.
func Decode(body []byte) (s State, err error) {
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		return s, err
	}
	safe, err := json.Marshal(plain(answer))
	if err == nil {
		err = json.Unmarshal(safe, &s)
	}
	return s, err
}

// plain returns a JSON value with its texts as [show.Plain] has them.
func plain(v any) any {
	switch v := v.(type) {
	case string:
		return show.Plain(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, value := range v {
			object[show.Plain(key)] = plain(value)
		}
		return object
	}
	return v
}
