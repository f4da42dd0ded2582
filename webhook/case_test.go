package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cases are members of an object that are nothing to the API server, which tells capital from small
// letters, and members that stand twice, of which the last counts.
func cases(name, good, other string) map[string]string {
	member := func(name, value string) string { return fmt.Sprintf("%q:%s", name, value) }
	title := strings.ToUpper(name[:1]) + name[1:]
	all := map[string]string{
		"small letters":               member(name, good),
		"a capital letter after":      member(name, good) + "," + member(title, other),
		"a capital letter before":     member(title, other) + "," + member(name, good),
		"capital letters after":       member(name, good) + "," + member(strings.ToUpper(name), other),
		"twice, and the last counts":  member(name, other) + "," + member(name, good),
		"a spelling of small letters": fmt.Sprintf(`"\u%04x%s":%s`, name[0], name[1:], good),
	}
	if folds := strings.ReplaceAll(name, "s", "ſ"); folds != name {
		all["a letter that folds"] = member(name, good) + "," + member(folds, other)
	}
	return all
}

func TestMembersOfAnOldPodAreReadAsTheAPIServerReadsThem(t *testing.T) {
	container := func(image string) string { return `{` + image + `,"name":"audit","NAME":"x"}` }
	check := func(name, pod string) {
		t.Helper()
		old, err := (&Review{OldObject: part(pod)}).OldPod()
		want := map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "audit", "image": "good:1"}}},
		}
		if diff := cmp.Diff(want, old); err != nil || diff != "" {
			t.Errorf("%s: %s is (-want +got): %v\n%s", name, pod, err, diff)
		}
	}
	const labels, image = `"labels":{"a":"b"}`, `"image":"good:1"`
	other := `[{"name":"audit","image":"evil:1"}]`
	for name, member := range cases("containers", `[`+container(image)+`]`, other) {
		check(name, `{"metadata":{`+labels+`},"spec":{`+member+`}}`)
	}
	for name, member := range cases("image", `"good:1"`, `"evil:1"`) {
		check(name, `{"metadata":{`+labels+`},"spec":{"containers":[`+container(member)+`]}}`)
	}
}

func TestMembersOfASidecarTemplateAreReadAsTheAPIServerReadsThem(t *testing.T) {
	check := func(name, text string) {
		t.Helper()
		got, spec, err := readObject([]byte(text), "SidecarTemplate")
		if err != nil || got.Name != "shipper" || got.Labels.value["a"] != "b" || len(got.Labels.value) != 1 || got.Annotations.value["c"] != "d" || len(got.Annotations.value) != 1 || string(spec) != `{"order":1}` {
			t.Errorf("%s: %s is %+v (%v)", name, text, got, err)
		}
	}
	rest := map[string]string{"name": `"name":"shipper"`, "labels": `"labels":{"a":"b"}`, "annotations": `"annotations":{"c":"d"}`}
	for field, values := range map[string][2]string{"name": {`"shipper"`, `"other"`}, "labels": {`{"a":"b"}`, `{"x":"y"}`}, "annotations": {`{"c":"d"}`, `{"pillion.dev/allow-delete":"true"}`}} {
		for name, member := range cases(field, values[0], values[1]) {
			members := []string{member}
			for other, m := range rest {
				if other != field {
					members = append(members, m)
				}
			}
			check(field+", "+name, `{"metadata":{`+strings.Join(members, ",")+`},"spec":{"order":1}}`)
		}
	}
	metadata := `{` + rest["name"] + `,` + rest["labels"] + `,` + rest["annotations"] + `}`
	for name, member := range cases("metadata", metadata, `{"name":"other","labels":{"x":"y"}}`) {
		check("metadata, "+name, `{`+member+`,"spec":{"order":1}}`)
	}
	for name, member := range cases("spec", `{"order":1}`, `{"order":2}`) {
		check("spec, "+name, `{"metadata":`+metadata+`,`+member+`}`)
	}
}

func TestMembersOfAUserAreReadAsTheAPIServerReadsThem(t *testing.T) {
	for name, member := range cases("groups", `["system:nodes"]`, `["a"]`) {
		if node, err := (&Review{UserInfo: part(`{` + member + `}`)}).FromNode(); err != nil || !node {
			t.Errorf("%s: %s is from a node: %v (%v)", name, member, node, err)
		}
	}
	for name, member := range cases("groups", `["a"]`, `["system:nodes"]`) {
		if node, err := (&Review{UserInfo: part(`{` + member + `}`)}).FromNode(); err != nil || node {
			t.Errorf("%s: %s is from a node: %v (%v)", name, member, node, err)
		}
	}
}
