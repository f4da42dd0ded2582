package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// goPackage is what `go list` says of a package.
type goPackage struct {
	Dir    string
	Root   string // of the standard library: the Go distribution, which has its licence
	Module *goModule
}

type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *goModule
}

// linked returns the packages that a main package is built of, as `make build` builds it.
func linked(dir, pkg string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Root,Module", pkg)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", pkg, err)
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p goPackage
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("reading the packages of %s: %w", pkg, err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// module is a module with its licences.
type module struct {
	path, version, dir string
	// kinds are those of its licences, sorted, each once.
	kinds []string
	// files are the texts by their paths in the module, with slashes.
	files map[string][]byte
}

// standard is the name of the standard library among the modules.
const standard = "go"

// moduleOf returns the module of a package, without its licences. Nil: it is the program's own.
func moduleOf(p goPackage) *module {
	m := &module{path: standard, version: runtime.Version(), dir: p.Root, files: map[string][]byte{}}
	if p.Module == nil {
		return m
	}
	if p.Module.Main {
		return nil
	}
	m.path, m.version, m.dir = p.Module.Path, p.Module.Version, p.Module.Dir
	if r := p.Module.Replace; r != nil {
		m.version, m.dir = r.Version, r.Dir
	}
	return m
}

// gather returns the modules of the packages, sorted. The error names every module without a
// licence, or with one that is not allowed.
func gather(packages []goPackage) ([]*module, error) {
	byPath := map[string]*module{}
	for _, p := range packages {
		m := moduleOf(p)
		if m == nil {
			continue
		}
		if byPath[m.path] == nil {
			byPath[m.path] = m
		}
		if err := byPath[m.path].read(p.Dir); err != nil {
			return nil, fmt.Errorf("reading the licences of %s: %w", m.path, err)
		}
	}
	modules := slices.SortedFunc(maps.Values(byPath), func(a, b *module) int { return strings.Compare(a.path, b.path) })
	var problems []error
	for _, m := range modules {
		if err := m.judge(); err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", m.path, m.version, err))
		}
	}
	return modules, errors.Join(problems...)
}

// Names of files with a licence, and of those that go with one: notices, patent grants, and
// LICENSES, a module's own list of what it is made of.
var (
	licenceFile = regexp.MustCompile(`(?i)\A(?:licen[cs]e|copying|copyright|unlicense)(?:[-._].*)?\z`)
	noticeFile  = regexp.MustCompile(`(?i)\A(?:notice|patents|licen[cs]es)(?:[-._].*)?\z`)
	sourceFile  = regexp.MustCompile(`(?i)\.(?:go|s|proto|sh|py|tmpl|json|ya?ml)\z`)
)

// notLinked are licences in the folder of a linked package for something that is not linked.
var notLinked = map[string]bool{
	// BoringSSL, which Go links with GOEXPERIMENT=boringcrypto and cgo only.
	standard + "/src/crypto/internal/boring/LICENSE": true,
	// Documentation.
	"github.com/opencontainers/go-digest/LICENSE.docs": true,
}

// read reads the files of a package's folder and of those above it, up to the module's.
func (m *module) read(dir string) error {
	for ; m.dir != "" && strings.HasPrefix(dir, m.dir); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name, file := e.Name(), filepath.Join(dir, e.Name())
			inModule := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(file, m.dir)), "/")
			if !e.Type().IsRegular() || sourceFile.MatchString(name) || !licenceFile.MatchString(name) && !noticeFile.MatchString(name) || notLinked[m.path+"/"+inModule] {
				continue
			}
			if m.files[inModule], err = os.ReadFile(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge finds the kinds of the licences. It returns an error if there is none in the
// module's own folder, or one that is not allowed.
func (m *module) judge() error {
	own := false
	for _, file := range slices.Sorted(maps.Keys(m.files)) {
		if !licenceFile.MatchString(path.Base(file)) {
			continue
		}
		own = own || path.Dir(file) == "."
		kinds, err := kindsOf(m.files[file])
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		m.kinds = append(m.kinds, kinds...)
	}
	if !own {
		return errors.New("there is no licence in the module's folder")
	}
	slices.Sort(m.kinds)
	m.kinds = slices.Compact(m.kinds)
	return nil
}

// write writes the modules into a folder, which is made anew.
func write(modules []*module, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("removing the folder: %w", err)
	}
	var index strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&index, "%s\t%s\t%s\n", m.path, m.version, strings.Join(m.kinds, " "))
		for file, text := range m.files {
			if err := writeFile(filepath.Join(out, filepath.FromSlash(m.path), filepath.FromSlash(file)), text); err != nil {
				return err
			}
		}
	}
	return writeFile(filepath.Join(out, "MODULES.tsv"), []byte(index.String()))
}

// writeFile writes a file that everybody can read, whatever the process's mask.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of a licence: %w", err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("writing a licence: %w", err)
	}
	return os.Chmod(path, 0o644)
}
