package certs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// outdated gives the indexes of the entries whose caBundle is not want.
func outdated(configuration *admissionv1.MutatingWebhookConfiguration, want []byte) []int {
	var indexes []int
	for i := range configuration.Webhooks {
		if !bytes.Equal(configuration.Webhooks[i].ClientConfig.CABundle, want) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// jsonPatchOperation is one operation of RFC 6902.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch is a JSON patch that sets the caBundle of the entries with the
// given indexes, and changes nothing else: an update with the typed object
// would drop fields that this build does not know. It applies to the very
// version of the configuration that was read, else not at all.
func bundlePatch(configuration *admissionv1.MutatingWebhookConfiguration, indexes []int, want []byte) ([]byte, error) {
	patch := []jsonPatchOperation{{Op: "test", Path: "/metadata/resourceVersion", Value: configuration.ResourceVersion}}
	for _, i := range indexes {
		// "add" sets a field whether or not it is there.
		patch = append(patch, jsonPatchOperation{Op: "add", Path: "/webhooks/" + strconv.Itoa(i) + "/clientConfig/caBundle", Value: want})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of mutatingwebhookconfiguration %s: %w", configuration.Name, err)
	}
	return data, nil
}

// overtaken is whether a write failed because someone else's came first. The
// API server answers a failed "test" of a JSON patch with 422 Invalid.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}
