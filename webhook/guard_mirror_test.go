package webhook

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

// mirrored returns a mirror of the template shipper; change makes it another one.
func mirrored(t *testing.T, change func(metadata, spec map[string]any)) map[string]any {
	t.Helper()
	object := guardedObject(t, "pillion.dev/source: the library of a test")
	metadata := object["metadata"].(map[string]any)
	metadata["labels"] = map[string]any{"pillion.dev/mirror": "true"}
	if change != nil {
		change(metadata, object["spec"].(map[string]any))
	}
	return object
}

func TestAMirrorIsReadOnly(t *testing.T) {
	mirror := mirrored(t, nil)
	for what, c := range map[string]struct {
		operation   string
		object, old map[string]any
		refused     string
	}{
		"its spec":                     {"UPDATE", mirrored(t, func(_, spec map[string]any) { spec["order"] = 1 }), mirror, "a read-only copy of a template that Pillion serves from the library of a test"},
		"its label taken off":          {"UPDATE", mirrored(t, func(m, _ map[string]any) { delete(m, "labels") }), mirror, "a read-only copy"},
		"another value of the label":   {"UPDATE", mirrored(t, func(m, _ map[string]any) { m["labels"] = map[string]any{"pillion.dev/mirror": "no"} }), mirror, "a read-only copy"},
		"another label":                {"UPDATE", mirrored(t, func(m, _ map[string]any) { m["labels"].(map[string]any)["a"] = "b" }), mirror, "a read-only copy"},
		"its source":                   {"UPDATE", mirrored(t, func(m, _ map[string]any) { delete(m, "annotations") }), mirror, "a read-only copy"},
		"a spec with mistakes":         {"UPDATE", mirrored(t, func(_, spec map[string]any) { spec["ordr"] = 1 }), mirror, "a read-only copy"},
		"a template made a mirror":     {"UPDATE", mirror, guardedObject(t, "pillion.dev/source: the library of a test"), "remove it"},
		"a mirror by somebody else":    {"CREATE", mirror, nil, "remove it"},
		"a finalizer":                  {"UPDATE", mirrored(t, func(m, _ map[string]any) { m["finalizers"] = []any{"foregroundDeletion"} }), mirror, ""},
		"an owner":                     {"UPDATE", mirrored(t, func(m, _ map[string]any) { m["ownerReferences"] = []any{} }), mirror, ""},
		"nothing":                      {"UPDATE", mirror, mirror, ""},
		"another value from the start": {"CREATE", mirrored(t, func(m, _ map[string]any) { m["labels"] = map[string]any{"pillion.dev/mirror": "no"} }), nil, ""},
	} {
		got := judgeBy(t, GuardOptions{}, "library/shipper", c.operation, c.object, c.old)
		if got.Allowed != (c.refused == "") || c.refused != "" && (!strings.Contains(got.Result.Message, c.refused) || !strings.HasSuffix(got.Result.Message, "(TemplateReadOnly)")) {
			t.Errorf("%s: %+v %+v", what, got.Allowed, got.Result)
		}
	}
}

// Without the template a mirror is only in the way, and with it Pillion makes it again.
func TestAMirrorMayBeDeletedWhoeverUsesTheTemplate(t *testing.T) {
	asking := templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}
	got := judgeBy(t, GuardOptions{Mirrors: true}, "library/shipper", "DELETE", nil, mirrored(t, nil), asking)
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "Pillion creates it again") || len(got.Warnings[0]) > 256 {
		t.Errorf("the answer is %+v", got)
	}
	if got := judgeBy(t, GuardOptions{}, "SidecarTemplate/shipper", "DELETE", nil, mirrored(t, nil), asking); !got.Allowed || len(got.Warnings) != 0 {
		t.Errorf("of a template that an object has, too: %+v", got)
	}
}

func TestANewTemplateWithTheNameOfAMirroredOneIsRefused(t *testing.T) {
	mirrors := GuardOptions{Mirrors: true}
	for _, source := range []string{"library/shipper", "/etc/pillion/templates/shipper.yaml"} {
		got := judgeBy(t, mirrors, source, "CREATE", guardedObject(t, ""), nil)
		if got.Allowed || !strings.Contains(got.Result.Message, "the name shipper is taken by "+source) || !strings.Contains(got.Result.Message, "Choose another name") {
			t.Errorf("%s: %+v", source, got.Result)
		}
		// One that was there before goes on: it is changed, and deleted, as ever.
		other := guardedObject(t, "")
		other["spec"].(map[string]any)["order"] = 1
		if got := judgeBy(t, mirrors, source, "UPDATE", other, guardedObject(t, "")); !got.Allowed || len(got.Warnings) != 1 {
			t.Errorf("%s: a change of one that is there: %+v", source, got)
		}
	}
	for _, source := range []string{"", "SidecarTemplate/shipper"} {
		if got := judgeBy(t, mirrors, source, "CREATE", guardedObject(t, ""), nil); !got.Allowed {
			t.Errorf("%q: %+v", source, got.Result)
		}
	}
}
