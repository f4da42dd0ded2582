package main

import (
	"debug/buildinfo"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const (
	apache = "Licensed under the Apache License, Version 2.0 (the \"License\"); you may not use this file except in compliance with the License. You may obtain a copy of the License at http://www.apache.org/licenses/LICENSE-2.0\n" +
		"Unless required by applicable law or agreed to in writing, software distributed under the License is distributed on an \"AS IS\" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. " +
		"See the License for the specific language governing permissions and limitations under the License.\n"
	mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights ` +
		"to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:\n" +
		"The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.\n" +
		`THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS ` +
		"OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.\n"
	gpl = "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n" +
		"This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.\n"
)

func TestALicenceOfAKindThatIsNotAllowedIsAnErrorBesideOneThatIs(t *testing.T) {
	if got, err := kindsOf([]byte(apache + mit)); err != nil || strings.Join(got, " ") != "Apache-2.0 MIT" {
		t.Errorf("%q (%v)", got, err)
	}
	for text, want := range map[string]string{"": "no kind", "All rights reserved.": "no kind", gpl: "not allowed: GPL-3.0", mit + gpl: "not allowed: GPL-3.0", mit + strings.Repeat("Nobody may give the software away. ", 30): "no kind"} {
		if got, err := kindsOf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %q (%v), want an error with %s", text, got, err, want)
		}
	}
}

// aModule makes a module with the files, and returns the package in its folder pkg/inner.
func aModule(t *testing.T, path string, files map[string]string) goPackage {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "pkg", "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := goPackage{ImportPath: path + "/pkg/inner", Dir: filepath.Join(root, "pkg", "inner")}
	p.Module = &goModule{Path: path, Version: "v1.0.0", Dir: root}
	return p
}

func TestEveryModuleWithoutAnAllowedLicenceIsNamed(t *testing.T) {
	_, err := gather([]goPackage{
		aModule(t, "example.com/none", map[string]string{"NOTICE": apache}), aModule(t, "example.com/inner", map[string]string{"pkg/LICENSE": mit}),
		aModule(t, "example.com/good", map[string]string{"LICENSE": mit}), aModule(t, "example.com/foreign", map[string]string{"LICENSE": mit, "pkg/COPYING": gpl}),
	}, "")
	if err == nil {
		t.Fatal("all modules are accepted")
	}
	for name, named := range map[string]bool{"none v1.0.0: there is no licence": true, "inner v1.0.0: there is no licence": true, "foreign v1.0.0: pkg/COPYING: its licence is not allowed": true, "good": false} {
		if strings.Contains(err.Error(), "example.com/"+name) != named {
			t.Errorf("named %s: want %t:\n%v", name, named, err)
		}
	}
}

// contents returns the files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
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
	files := contents(t, checkout.Path("bin", "licenses"))
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
	for line := range strings.Lines(files["MODULES.tsv"]) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 || fields[2] == "" {
			t.Fatalf("the line %q", line)
		}
		got = append(got, fields[0]+"\t"+fields[1])
		has := slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(path string) bool {
			name, ok := strings.CutPrefix(path, fields[0]+"/")
			return ok && licenceFile.MatchString(name)
		})
		if !has {
			t.Errorf("%s has no licence", fields[0])
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("licences of\n%s\nwant those of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for path, text := range files {
		if len(text) == 0 || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes", path, len(text))
		}
	}
}
