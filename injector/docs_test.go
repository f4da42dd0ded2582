package injector

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var documented = regexp.MustCompile("`(func [^`]+)`")

func TestTheArchitecturesSignaturesAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, tree := range []string{".", "../templates", "../rollout", "../check"} {
		err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			source, err := os.ReadFile(path)
			code.Write(source)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	found := documented.FindAllStringSubmatch(string(text), -1)
	if len(found) < 10 {
		t.Fatalf("%d signatures", len(found))
	}
	for _, f := range found {
		if !strings.Contains(code.String(), "\n"+f[1]+" {\n") {
			t.Errorf("the code has no %s", f[1])
		}
	}
}
