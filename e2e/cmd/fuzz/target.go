package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// target is one fuzz target.
type target struct {
	pkg, name string
	// slow is why it cannot try thousands of inputs in a second. Empty if it can.
	slow string
}

// testPackage is what `go list` says of a package.
type testPackage struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
}

// list finds the targets of the module in its source, which takes a second. To ask go test
// for them would link the tests of every package.
func list() ([]target, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var targets []target
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p testPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the packages: %w", err)
		}
		found, err := p.targets()
		if err != nil {
			return nil, fmt.Errorf("looking for targets in %s: %w", p.ImportPath, err)
		}
		targets = append(targets, found...)
	}
}

// slowDirective begins the comment of a target that cannot be fast.
const slowDirective = "//fuzz:slow "

// targets returns the targets of the package, in the order of its files.
func (p testPackage) targets() ([]target, error) {
	var targets []target
	for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isTarget(f) {
				targets = append(targets, target{pkg: p.ImportPath, name: f.Name.Name, slow: slowReason(f.Doc)})
			}
		}
	}
	return targets, nil
}

// isTarget reports whether a function is func FuzzX(f *testing.F).
func isTarget(f *ast.FuncDecl) bool {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") || len(f.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "F"
}

// slowReason returns what the directive of a target says.
func slowReason(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	for _, c := range doc.List {
		if why, ok := strings.CutPrefix(c.Text, slowDirective); ok {
			return strings.TrimSpace(why)
		}
	}
	return ""
}
