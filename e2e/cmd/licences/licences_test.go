package main

import (
	"debug/buildinfo"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// Of the modules in testdata only one has licences that are allowed, with one in its own folder.
func TestEveryModuleWithoutAnAllowedLicenceIsNamed(t *testing.T) {
	var packages []goPackage
	for _, name := range []string{"none", "inner", "good", "foreign", "unknown"} {
		dir := filepath.Join("testdata", name)
		packages = append(packages, goPackage{Dir: filepath.Join(dir, "pkg", "inner"), Module: &goModule{Path: name, Version: "v1", Dir: dir}})
	}
	const want = "foreign v1: pkg/COPYING: its licence is not allowed: GPL-3.0-or-later\n" +
		"inner v1: there is no licence in the module's folder\n" +
		"none v1: there is no licence in the module's folder\n" +
		"unknown v1: LICENSE: 52 % of its licence are of no kind that is known to be allowed"
	if _, err := gather(packages); err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// The linker's own list of modules is in the binary of `make build`, and what the image
// gets is in bin/licenses.
func TestEveryModuleOfTheBinaryHasItsLicence(t *testing.T) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := buildinfo.ReadFile(checkout.Webhook())
	if err != nil {
		t.Fatalf("%v; make build makes it", err)
	}
	licences := os.DirFS(checkout.Path("bin", "licenses"))
	index, err := fs.ReadFile(licences, "MODULES.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{standard + "\t" + binary.GoVersion}
	for _, m := range binary.Deps {
		version := m.Version
		if m.Replace != nil {
			version = m.Replace.Version
		}
		want = append(want, m.Path+"\t"+version)
	}
	slices.Sort(want)
	var got []string
	for line := range strings.Lines(string(index)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 || fields[2] == "" {
			t.Fatalf("the line %q", line)
		}
		got = append(got, fields[0]+"\t"+fields[1])
		files, err := fs.ReadDir(licences, fields[0])
		if err != nil || !slices.ContainsFunc(files, func(e fs.DirEntry) bool { return licenceFile.MatchString(e.Name()) }) {
			t.Errorf("%s has no licence (%v)", fields[0], err)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("licences of\n%s\nwant those of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
