package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath, Dir string
	Standard        bool
	Module          *goModule
}

type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *goModule
}

// linked returns the packages that a main package is built of, as `make build` builds it.
func linked(dir, pkg string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", pkg)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", pkg, err)
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the packages of %s: %w", pkg, err)
		}
		packages = append(packages, p)
	}
}

// module is a module with its licences.
type module struct {
	path, version string
	// kinds are those of its licences, sorted, each once.
	kinds []string
	// files are the texts by their paths in the module, with slashes.
	files map[string][]byte
}

// standard is the name of the standard library among the modules.
const standard = "go"

// goRoot returns the folder of the Go distribution, which has the standard library's licence.
func goRoot(dir string) (string, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the Go distribution: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// gather returns the modules of the packages, sorted. The standard library's packages are
// below goroot. The error names every module without a licence, or with one that
// is not allowed.
func gather(packages []goPackage, goroot string) ([]*module, error) {
	byPath := map[string]*module{}
	for _, p := range packages {
		path, version, root := standard, runtime.Version(), goroot
		switch m := p.Module; {
		case m != nil && m.Main:
			continue
		case m != nil && m.Replace != nil:
			path, version, root = m.Path, m.Replace.Version, m.Replace.Dir
		case m != nil:
			path, version, root = m.Path, m.Version, m.Dir
		case !p.Standard:
			return nil, fmt.Errorf("the package %s belongs to no module", p.ImportPath)
		}
		if byPath[path] == nil {
			byPath[path] = &module{path: path, version: version, files: map[string][]byte{}}
		}
		if err := byPath[path].read(root, p.Dir); err != nil {
			return nil, err
		}
	}
	var modules []*module
	var problems []error
	for _, m := range byPath {
		if err := m.judge(); err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", m.path, m.version, err))
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
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
func (m *module) read(root, dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		inModule, err := filepath.Rel(root, dir)
		if err != nil || inModule == ".." || strings.HasPrefix(inModule, ".."+string(filepath.Separator)) {
			return fmt.Errorf("the folder %s is not in the module %s", dir, m.path)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("reading the module %s: %w", m.path, err)
		}
		for _, e := range entries {
			name := e.Name()
			if !e.Type().IsRegular() || sourceFile.MatchString(name) || !licenceFile.MatchString(name) && !noticeFile.MatchString(name) {
				continue
			}
			path := filepath.ToSlash(filepath.Join(inModule, name))
			if notLinked[m.path+"/"+path] {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return fmt.Errorf("reading the licence of %s: %w", m.path, err)
			}
			m.files[path] = text
		}
		if inModule == "." {
			return nil
		}
	}
}

// judge finds the kinds of the licences. It returns an error if there is none in the
// module's own folder, or one that is not allowed.
func (m *module) judge() error {
	var problems []error
	own := false
	for path, text := range m.files {
		name := path[strings.LastIndex(path, "/")+1:]
		if !licenceFile.MatchString(name) {
			continue
		}
		own = own || !strings.Contains(path, "/")
		kinds, err := kindsOf(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
		m.kinds = append(m.kinds, kinds...)
	}
	if !own {
		problems = append(problems, errors.New("there is no licence in the module's folder"))
	}
	slices.Sort(m.kinds)
	m.kinds = slices.Compact(m.kinds)
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// write writes the modules into a folder, which is made anew.
func write(modules []*module, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("removing the folder: %w", err)
	}
	var index strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&index, "%s\t%s\t%s\n", m.path, m.version, strings.Join(m.kinds, " "))
		for path, text := range m.files {
			if err := writeFile(filepath.Join(out, filepath.FromSlash(m.path), filepath.FromSlash(path)), text); err != nil {
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
