package templates

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	k8sjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"
)

// Mirrored is the value of the label that [MirrorLabel] names.
const Mirrored = "true"

// MirrorLabel returns the key of the label of mirrors: PREFIX/mirror. A mirror is an object
// of the cluster that shows a template of the library or of a file. It is no template
// itself: who reads templates passes over every object with this label.
func MirrorLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/mirror" }

// MirrorSourceKey returns the key of the annotation that says of a mirror where the template
// comes from, and how to change it: PREFIX/source.
func MirrorSourceKey(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/source" }

// IsMirror reports whether an object with these labels is a mirror.
func IsMirror(prefix string, labels map[string]string) bool {
	return labels[MirrorLabel(prefix)] == Mirrored
}

// Shown returns the spec of a manifest as a reader of the cluster sees it, with numbers as
// client-go decodes them: the installer's values are the defaults of the parameters, and
// there is what the CRD fills in. The manifest need not compile. The error says why it has
// no spec.
func Shown(text []byte, values map[string]any) (map[string]any, error) {
	object, err := manifest.Read(text, manifest.NewSource(text, 1))
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(object["spec"])
	if err != nil {
		return nil, fmt.Errorf("writing the spec as JSON: %w", err)
	}
	var spec map[string]any
	if err := k8sjson.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	if spec == nil {
		return nil, errors.New("the manifest has no spec")
	}
	// The installer's values have other types of numbers.
	installers, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("writing the installer's values as JSON: %w", err)
	}
	var plain map[string]any
	if err := k8sjson.Unmarshal(installers, &plain); err != nil {
		return nil, fmt.Errorf("reading the installer's values: %w", err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	param.ShowInstallersDefaults(spec["parameters"], name, plain)
	for field, value := range map[string]any{"injectByDefault": false, "order": int64(0)} {
		if spec[field] == nil {
			spec[field] = value
		}
	}
	return spec, nil
}
