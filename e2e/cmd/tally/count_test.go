package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestCountsAndWhatIsShown(t *testing.T) {
	tests := []struct {
		name          string
		stream        string
		want          counts
		shown, hidden []string
	}{
		{
			name: "tests and subtests count, and the output of those that pass stays away",
			stream: `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestX/one","Output":"chatter\n"}
{"Action":"attr","Package":"a","Test":"TestX","Key":"rss","Value":"40 MiB"}
{"Action":"pass","Package":"a","Test":"TestX/one"}
{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"skip","Package":"a","Test":"TestY"}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"pass","Package":"a","Elapsed":1}
`,
			want:   counts{passed: 2, skipped: 1},
			shown:  []string{"TestX: rss: 40 MiB"},
			hidden: []string{"chatter", "PASS"},
		},
		{
			name: "a failing test shows what it wrote",
			stream: `{"Action":"output","Package":"a","Test":"TestX","Output":"x_test.go:1: wrong\n"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"fail","Package":"a"}
`,
			want:  counts{failed: 1},
			shown: []string{"x_test.go:1: wrong"},
		},
		{
			name: "a package that does not compile is one failure, with the compiler's words",
			stream: `{"ImportPath":"a","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"ImportPath":"a","Action":"build-fail"}
{"Action":"fail","Package":"a","FailedBuild":"a"}
`,
			want:  counts{failed: 1},
			shown: []string{"undefined: x"},
		},
		{
			name: "a test that never ends is a failure",
			stream: `{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestHang","Output":"waiting for Godot\n"}
{"Action":"fail","Package":"a"}
`,
			want:  counts{passed: 1, failed: 1},
			shown: []string{"TestHang did not end", "waiting for Godot"},
		},
		{
			name:   "what is not JSON is shown, and a package without tests counts nothing",
			stream: "go: downloading x\n" + `{"Action":"skip","Package":"a"}` + "\n",
			want:   counts{},
			shown:  []string{"go: downloading x"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			got, err := count(strings.NewReader(test.stream), &out)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("counted %v, want %v", got, test.want)
			}
			for _, text := range test.shown {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, &out)
				}
			}
			for _, text := range test.hidden {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is shown:\n%s", text, &out)
				}
			}
		})
	}
}

func TestEachRunHasItsOwnEnvironmentFolderAndArguments(t *testing.T) {
	got := split([]string{".", "-race", "./...", "--", "A=1", "B=", "e2e", "-ldflags=x", "./...", "--", "C=3"})
	want := []run{{dir: ".", args: []string{"-race", "./..."}}, {env: []string{"A=1", "B="}, dir: "e2e", args: []string{"-ldflags=x", "./..."}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("split gives %q, want %q", got, want)
	}
}
