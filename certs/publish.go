package certs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// jsonPatchOperation is one operation of RFC 6902.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch is a JSON patch that sets the caBundle of the entries, and changes
// nothing else: an update with the typed object would drop fields that this build
// does not know. It applies to the very version of the configuration that was
// read, else not at all.
func bundlePatch(r *registration, entries []entry, want []byte) ([]byte, error) {
	patch := []jsonPatchOperation{{Op: "test", Path: "/metadata/resourceVersion", Value: r.resourceVersion}}
	for _, e := range entries {
		// "add" sets a field whether or not it is there.
		patch = append(patch, jsonPatchOperation{Op: "add", Path: "/webhooks/" + strconv.Itoa(e.index) + "/clientConfig/caBundle", Value: want})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of %s: %w", r, err)
	}
	return data, nil
}

// overtaken is whether a write failed because someone else's came first.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// refusal remembers a version of an object on which a patch was refused as invalid.
// That is how the API server answers a failed "test", which says that there is a
// newer version; it is also how it answers a value that it does not take.
type refusal struct {
	version string
	since   time.Time
}

// again is whether the patch is refused for its value: what was refused some time
// ago is still the newest version.
func (r *refusal) again(version string, now time.Time) bool {
	if r.version != version {
		*r = refusal{version, now}
	}
	return now.Sub(r.since) > 2*checkInterval
}
