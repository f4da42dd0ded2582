package directive

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func parsed(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAnObjectSaysWhatItsDirectivesMean(t *testing.T) {
	for text, want := range map[string]Directives{
		"null":                       {},
		"replace":                    {},
		"[]":                         {},
		"{name: a}":                  {},
		"{name: a, $patch: delete}":  {Delete: true},
		"{name: a, $patch: replace}": {Replace: true},
		"{$patch: replace}":          {Replace: true, Marker: true},
		"{$patch: delete}":           {Delete: true},
		"{$patch: [delete]}":         {},

		"{$unset: [b, a]}":          {Unset: []string{"b", "a"}},
		"{$unset: []}":              {},
		"{$unset: [a, 1]}":          {},
		"{$unset: [a, '']}":         {},
		"{$unset: ['${params.a}']}": {},
		"{$unset: a}":               {},

		"{$onConflict: Deny}":      {Conflict: Deny},
		"{$onConflict: KeepPod}":   {Conflict: KeepPod},
		"{$onConflict: Overwrite}": {Conflict: Overwrite},
		"{$onConflict: Win}":       {},
		"{$onConflict: [Deny]}":    {},

		"{$position: First}":                      {Position: Place{Kind: First}},
		"{$position: Last}":                       {Position: Place{Kind: Last}},
		"{$position: {before: x}}":                {Position: Place{Kind: Before, Anchor: "x"}},
		"{$position: {after: x}}":                 {Position: Place{Kind: After, Anchor: "x"}},
		"{$position: {after: x, before: z}}":      {},
		"{$position: {after: ''}}":                {},
		"{$position: {after: 1}}":                 {},
		"{$position: {after: '${params.after}'}}": {Position: Place{Kind: After, Anchor: "${params.after}"}},
		"{$position: Middle}":                     {},

		"{$append: ',', value: x}":  {Join: &Join{Side: Behind, Separator: ",", Text: "x"}},
		"{$append: ',', value: ''}": {Join: &Join{Side: Behind, Separator: ","}},
		"{$prepend: ',', value: x}": {Join: &Join{Side: InFront, Separator: ",", Text: "x"}},
		"{$append: ',', value: 1}":  {Join: &Join{Side: Behind, Separator: ","}}, // rendering fills the text in
		"{$append: '', value: x}":   {},
		"{$append: 1, value: x}":    {},
	} {
		if got := Of(parsed(t, text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestPinnedPartsOfAPod(t *testing.T) {
	for path, want := range map[string]bool{
		"":                                       true,
		"status":                                 true,
		"status/phase":                           true,
		"metadata":                               true,
		"metadata/name":                          true,
		"metadata/ownerReferences/x":             true,
		"metadata/annotations":                   true,
		"metadata/annotations/example.com~1note": false,
		"metadata/labels":                        false,
		"metadata/labels/app":                    false,
		"spec":                                   true,
		"spec/containers":                        true,
		"spec/containers/name=web":               false,
		"spec/containers/name=web/env":           false,
		"spec/initContainers":                    false,
		"spec/hostPID":                           false,
	} {
		var elements []string
		if path != "" {
			elements = strings.Split(path, "/")
		}
		if got := Pinned(elements...); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
}

func TestCheckNamesEachMistake(t *testing.T) {
	at := func(path string) Where { return Where{Path: strings.Split(path, ".")} }
	item := func(path string) Where {
		w := at(path + ".*")
		w.Item, w.Keyed = true, true
		return w
	}
	container, volume := item("spec.containers"), item("spec.volumes")
	toleration := Where{Path: []string{"spec", "tolerations", "*"}, Item: true, Gathered: true, Inside: true}
	term := Where{Path: []string{"spec", "affinity", "x", "*"}, Item: true, Inside: true}
	scalar := func(path string) Where {
		w := at(path)
		w.Scalar = true
		return w
	}
	unkeyed := Where{Path: []string{"spec", "new", "*"}, Item: true}
	profile := at("spec.securityContext.seccompProfile")
	profile.Whole = true
	const (
		onlyThere = "is only for items of a container's env, and for the values of annotations"
		separator = "must be the text between the parts, such as \" \" or \",\": not empty, and without expressions"
		form      = "; write {$onConflict: KeepPod, value: V}, or for the value of an annotation {$append: \",\", value: TEXT}"

		keysOnly = "is only for items of lists whose items have names or keys"
		takes    = "would remove what no template may remove: "
	)
	for _, c := range []struct {
		name   string
		object string
		where  Where
		want   string
	}{
		{"no directive", "{a: b}", at("spec"), ""},
		{"an unknown one", "{$patsh: delete}", at("spec"), "$patsh is not a directive; did you mean $patch?"},
		{"one of templates", "{$if: 'true'}", at("spec"), "$if is for templates; a rendered fragment has none"},
		{"two mistakes", "{$position: First, $onConflict: Win}", at("spec"), "$onConflict must be one of Deny, KeepPod, Overwrite, $position " + keysOnly},

		{"a place", "{name: a, $position: First}", container, ""},
		{"a neighbour", "{name: a, $position: {before: b}}", volume, ""},
		{"a place of no item", "{$position: First}", at("spec.securityContext"), "$position " + keysOnly},
		{"a place in a list without keys", "{key: a, $position: First}", toleration, "$position " + keysOnly},
		{"an unknown place", "{name: a, $position: Middle}", volume, "$position must be First, Last, {before: NAME} or {after: NAME}"},
		{"two neighbours", "{name: a, $position: {before: b, after: c}}", volume, "$position must be First, Last, {before: NAME} or {after: NAME}"},

		{"a policy", "{$onConflict: KeepPod}", at("spec"), ""},
		{"an unknown policy", "{$onConflict: keepPod}", at("spec"), "$onConflict must be one of Deny, KeepPod, Overwrite"},
		{"a policy inside one value", "{$onConflict: Deny}", term, "$onConflict cannot be used inside what the API treats as one value"},

		{"delete an item", "{name: a, $patch: delete}", container, ""},
		{"delete an object", "{$patch: delete}", at("spec.securityContext"), ""},
		{"delete the labels", "{$patch: delete}", at("metadata.labels"), ""},
		{"delete the annotations", "{$patch: delete}", at("metadata.annotations"), "$patch " + takes + "metadata.annotations"},
		{"delete the spec", "{$patch: delete}", at("spec"), "$patch " + takes + "spec"},
		{"replace the spec", "{$patch: replace}", at("spec"), "$patch " + takes + "spec"},
		{"delete the pod", "{$patch: delete}", Where{}, "$patch " + takes + "the pod itself"},
		{"merge", "{name: a, $patch: merge}", volume, "$patch must be delete or replace"},
		{"delete an item without a key", "{key: a, $patch: delete}", unkeyed, "$patch " + keysOnly},
		{"delete inside one value", "{key: a, $patch: delete}", toleration, "$patch cannot be used inside what the API treats as one value"},
		{"replace a container", "{name: a, image: x, $patch: replace}", container, ""},
		{"replace a container by one without an image", "{name: a, $patch: replace}", container, "$patch replaces a container of the pod; give the item an image"},
		{"replace a list with keys", "{$patch: replace}", volume, ""},
		{"replace a gathered list", "{$patch: replace}", toleration, ""},
		{"replace another list", "{$patch: replace}", term, "$patch cannot be used inside what the API treats as one value"},
		{"replace a gathered item", "{key: a, $patch: replace}", toleration, "$patch cannot be used inside what the API treats as one value"},
		{"replace the containers", "{$patch: replace}", container, "$patch " + takes + "spec.containers"},
		{"replace the init containers", "{$patch: replace}", item("spec.initContainers"), ""},

		{"append", "{name: a, $append: ' ', value: x}", item("spec.containers.*.env"), ""},
		{"append at a place", "{name: a, $append: ' ', value: x, $position: First}", item("spec.initContainers.*.env"), ""},
		{"append to an annotation", "{$append: ',', value: x}", scalar("metadata.annotations.a"), ""},
		{"append to a label", "{$append: ',', value: x}", scalar("metadata.labels.a"), "$append " + onlyThere},
		{"append to a field", "{$append: ',', value: x}", scalar("spec.hostname"), "$append " + onlyThere},
		{"append to a volume", "{name: a, $append: ',', value: x}", volume, "$append " + onlyThere},
		{"append without a separator", "{name: a, $append: '', value: x}", item("spec.containers.*.env"), "$append " + separator},
		{"append with a number", "{name: a, $append: 1, value: x}", item("spec.containers.*.env"), "$append " + separator},
		{"append nothing", "{name: a, $append: ','}", item("spec.containers.*.env"), "$append needs value, the text to append"},
		{"append an empty text", "{name: a, $append: ',', value: ''}", item("spec.containers.*.env"), ""},
		{"append a source", "{name: a, $append: ',', valueFrom: {}}", item("spec.containers.*.env"), "$append appends text, so valueFrom is not allowed; use value"},
		{"append and unset", "{name: a, $append: ',', value: x, $unset: [b]}", item("spec.containers.*.env"), "$append cannot be combined with $unset: joined text leaves the pod's text in place; use one of the two"},
		{"append and a policy", "{$append: ',', value: x, $onConflict: Deny}", scalar("metadata.annotations.a"), "$append cannot be combined with $onConflict: joined text leaves the pod's text in place; use one of the two"},
		{"a policy of one scalar", "{$onConflict: KeepPod, value: 60}", scalar("spec.terminationGracePeriodSeconds"), ""},
		{"a policy of one scalar, false", "{$onConflict: KeepPod, value: false}", scalar("spec.hostPID"), ""},
		{"an unknown policy of one scalar", "{$onConflict: Keep, value: 60}", scalar("spec.hostname"), "$onConflict must be one of Deny, KeepPod, Overwrite"},
		{"a policy of a scalar inside one value", "{$onConflict: Deny, value: 60}", Where{Path: []string{"spec", "tolerations", "*", "key"}, Scalar: true, Inside: true}, "$onConflict cannot be used inside what the API treats as one value"},
		{"a place of one scalar", "{$position: First, value: 60}", scalar("spec.hostname"), "$position cannot be used for a single value" + form},
		{"one scalar without a value", "{$onConflict: Deny}", scalar("spec.hostname"), "$onConflict is used for a single value, which is missing" + form},
		{"one scalar beside a field", "{$onConflict: Deny, vale: x}", scalar("spec.hostname"), "$onConflict is used for a single value, so the field \"vale\" is not allowed" + form},
		{"one scalar of a known list", "{$for: 'x in y', $onConflict: Deny, value: x}", scalar("spec.hostname"), "$for cannot be used for a single value" + form},

		{"unset", "{$unset: [hostPID]}", at("spec"), ""},
		{"unset a label", "{$unset: [app]}", at("metadata.labels"), ""},
		{"unset the labels", "{$unset: [labels]}", at("metadata"), ""},
		{"unset the name", "{$unset: [name]}", at("metadata"), "$unset " + takes + "metadata.name"},
		{"unset the annotations", "{$unset: [annotations]}", at("metadata"), "$unset " + takes + "metadata.annotations"},
		{"append and prepend", "{$append: ',', $prepend: ',', value: x}", Where{Path: []string{"metadata", "annotations", "a"}, Scalar: true}, "$append cannot be combined with $prepend: joined text leaves the pod's text in place; use one of the two, $prepend cannot be combined with $append: joined text leaves the pod's text in place; use one of the two"},
		{"unset the containers", "{$unset: [hostPID, containers]}", at("spec"), "$unset " + takes + "spec.containers"},
		{"unset the spec", "{$unset: [spec]}", Where{}, "$unset " + takes + "spec"},
		{"unset and set", "{hostPID: true, $unset: [hostPID]}", at("spec"), "$unset removes hostPID, which this object also sets; use one of the two"},
		{"unset a directive", "{$unset: [$patch]}", at("spec"), "$unset names the directive $patch; it must name fields"},
		{"unset no list", "{$unset: hostPID}", at("spec"), "$unset must be a list of names of this object's fields"},
		{"unset an expression", "{$unset: ['${params.a}']}", at("metadata.labels"), "$unset must be a list of names of this object's fields"},
		{"unset in one value", "{$unset: [localhostProfile]}", profile, "$unset cannot be used inside what the API treats as one value; write the whole value, with $patch: replace"},
		{"unset inside one value", "{$unset: [key]}", term, "$unset cannot be used inside what the API treats as one value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range Check(parsed(t, c.object).(map[string]any), c.where) {
				got = append(got, p.Key+" "+p.Message)
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.object, text, c.want)
			}
		})
	}
}
