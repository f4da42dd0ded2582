package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pillion-dev/pillion/templates/show"
)

// Path is the path of the state at a replica's admin port.
const Path = "/state"

// State is the report of a replica about itself.
type State struct {
	Version string `json:"version"`
	// Templates has the hashes of the templates that the replica applies, by name.
	Templates map[string]string `json:"templates"`
	// Broken are the templates whose newest version has a mistake, so that an older one is in force.
	Broken []string `json:"broken,omitempty"`

	// CacheAgeSeconds has the age of each cache: the time since it was last complete.
	CacheAgeSeconds map[string]float64 `json:"cacheAgeSeconds,omitempty"`
	// EnforcementProven reports whether the replica's proof of injection succeeded. It is nil
	// without a proof namespace.
	EnforcementProven *bool `json:"enforcementProven,omitempty"`
	// PodsLastLookedAt is the time of the last complete count of pods without their sidecars.
	PodsLastLookedAt *time.Time `json:"podsLastLookedAt,omitempty"`

	// FailingLabels counts, by label, the namespaces whose label cannot be written.
	FailingLabels map[string]int `json:"failingLabels,omitempty"`

	Certificates Certificates `json:"certificates"`
}

// Certificates is the report of a replica about its certificates.
type Certificates struct {
	// Ends is the end of the served certificate, or nil.
	Ends *time.Time `json:"ends,omitempty"`
	// Problems are the present failures, as OPERATION: OBJECT.
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

// Replica is the answer of one replica.
type Replica struct {
	Name string `json:"name"`
	// Created is the creation time of its pod, or zero.
	Created time.Time `json:"created,omitzero"`
	// Ready means that the replica is ready and returned its state.
	Ready bool `json:"ready"`
	// Missing is the reason why the replica is not ready, or "".
	Missing string `json:"missing,omitempty"`
	// Answers means that the replica returned its state.
	Answers bool `json:"answers"`
	State
}

// Problems returns the present failures. The replica may be ready all the same.
func (r Replica) Problems() []string {
	all := slices.Clone(r.Certificates.Problems)
	for _, label := range slices.Sorted(maps.Keys(r.FailingLabels)) {
		all = append(all, fmt.Sprintf("label %s: cannot be written on %d namespaces, so they get no sidecars or are not enforced", label, r.FailingLabels[label]))
	}
	return all
}

// Decode reads a state. It escapes characters that control a terminal, because another program may
// have answered.
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

// plain applies [show.Plain] to all texts in a JSON value.
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
