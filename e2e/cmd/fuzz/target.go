package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// list asks go test for the targets: it prints the names of a package, then the package.
func list() ([]target, error) {
	out, err := output("test", "-list=^Fuzz", "./...")
	if err != nil {
		return nil, fmt.Errorf("listing the targets: %w\n%s", err, out)
	}
	targets := parseList(out)
	for i, t := range targets {
		dir, err := output("list", "-f={{.Dir}}", t.pkg)
		if err != nil {
			return nil, fmt.Errorf("finding the folder of %s: %w", t.pkg, err)
		}
		if targets[i].slow, err = slowReason(strings.TrimSpace(dir), t.name); err != nil {
			return nil, fmt.Errorf("reading the source of %s: %w", t.name, err)
		}
	}
	return targets, nil
}

func output(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func parseList(out string) []target {
	var targets []target
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasPrefix(fields[0], "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			for _, name := range names {
				targets = append(targets, target{pkg: fields[1], name: name})
			}
			names = nil
		}
	}
	return targets
}

// slowDirective begins the comment of a target that cannot be fast.
const slowDirective = "//fuzz:slow "

// slowReason returns what the directive of a target says, in the test files of a folder.
func slowReason(dir, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != name || f.Doc == nil {
				continue
			}
			for _, c := range f.Doc.List {
				if why, ok := strings.CutPrefix(c.Text, slowDirective); ok {
					return strings.TrimSpace(why), nil
				}
			}
		}
	}
	return "", nil
}
