package templates

import "testing"

func TestARequiredTemplateOwnsWhatItNamesWhateverItRenders(t *testing.T) {
	const spec = `
required: true
match: {podSelector: {matchLabels: {a: b}}}
inject:
  spec:
    initContainers: [{name: init, image: b}]
    containers: [{$if: "pod.spec.containers.size() > 9", name: audit, image: a}, {name: main, env: []}]
    volumes: `
	for volumes, owned := range map[string]map[string]bool{
		`[{name: data, emptyDir: {}}, {$if: "pod.spec.containers.size() > 9", name: other, emptyDir: {}}]`: {"data": true, "other": true, "datax": false, "": false},
		`[{name: "data-${pod.metadata.?name.orValue('')}", emptyDir: {}}]`:                                 {"data-": true, "data-x": true, "data": false, "x": false},
		`[{$for: "x in pod.spec.containers", name: "${x.name}-ab", emptyDir: {}}]`:                         {"x-ab": true, "x-b": false},
		`"${pod.spec.?volumes.orValue([])}"`:                                                               {"any": true},
		`["${pod.spec.?volumes[0].orValue(null)}"]`:                                                        {"any": true},
	} {
		for more, good := range map[string]bool{"": true, "\n    nodeNam: x": false} {
			compiled, _, err := Compile(manifestOf(spec+volumes+more), Options{})
			if (err == nil) != good {
				t.Errorf("%s: %v", volumes, err)
			}
			own := Entry{Name: "t", Template: compiled, Err: err}.Own()
			for name, want := range map[string]bool{"audit": true, "init": true, "main": false, "": false} {
				if own.Container(name) != want {
					t.Errorf("%s%s: container %q: %t", volumes, more, name, !want)
				}
			}
			for name, want := range owned {
				if own.Volume(name) != want {
					t.Errorf("%s%s: volume %q: %t", volumes, more, name, !want)
				}
			}
		}
	}
}
