package manifest

import (
	"fmt"
	"strings"
	"testing"
)

func TestAFileIsSplitIntoItsManifests(t *testing.T) {
	docs := Documents([]byte("# only a comment\n---\na: 1\n--- # second\nb: |\n  text\n  ---- no start\n\n---\n\n--- {c: 1}\n...\n"))
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%d:%s", d.Line, strings.ReplaceAll(string(d.Manifest), "\n", "|")))
	}
	want := []string{"2:---|a: 1|", "4:--- # second|b: ||  text|  ---- no start||", "11:--- {c: 1}|...|"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
