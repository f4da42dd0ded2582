package charts_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// strayPaths are values that no parameter for a path takes: not clean, or in a directory in
// which images and the kubelet have files of their own.
var strayPaths = []string{
	"", ".", "..", "../x", "a/../b", "a//b", "a/", "/", "//", "/.", "/..", "/../etc", "/./data", "//data", "/data/../etc", "/data/..", "/data/.", "/data/", "/data//x", "/data/./x",
	"/var/log/../../etc", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/etc/", "/lib", "/lib64", "/proc", "/proc/1/root", "/root", "/run", "/run/secrets", "/sbin", "/sys", "/sys/fs/cgroup", "/usr", "/usr/bin",
	"/usr/lib", "/usr/sbin", "/var", "/var/run", "/var/run/secrets/kubernetes.io/serviceaccount", "C:\\data", "\\data", "~/data", "file:///data",
	"/data\n", "/data/\x00", "/data/\u200b", "/data/\u202ex", "/data/a b", "/data/$(HOME)", "/data/a:b",
}

// strayFrom are values like a good one that are not clean.
func strayFrom(good string) []string {
	return []string{good + "/..", good + "/../../etc", good + "/./x", good + "//x", good + "/", good + "\n", good + "/\x00", good + "/\u200b", "../" + good}
}

// pathFields are the fields of a pod that hold paths, and the ones of configuration that the
// library's templates make.
var pathFields = []string{"mountPath", "subPath", "subPathExpr", "devicePath", "workingDir", "path", "destination", "token_path", "ca_cert"}

// pathsIn are the paths in a fragment, those in JSON texts included, each with its place. With
// sidecars they are those of the containers that have an image.
func pathsIn(fragment map[string]any, sidecars bool) []string {
	var found []string
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if text, ok := value.(string); ok && slices.Contains(pathFields, key) {
					found = append(found, at+"."+key+" "+text)
				}
				walk(value, at+"."+key)
			}
		case []any:
			for _, item := range v {
				walk(item, at+"[]")
			}
		case string:
			walk(inJSON(v), at+"(JSON)")
		}
	}
	if !sidecars {
		walk(fragment, "")
	}
	spec, _ := fragment["spec"].(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if c := item.(map[string]any); sidecars && c["image"] != nil {
				walk(c, fmt.Sprint(c["name"]))
			}
		}
	}
	slices.Sort(found)
	return found
}

// adds reports whether some paths are not among the usual ones.
func adds(some, usual []string) bool {
	return slices.ContainsFunc(some, func(found string) bool { return !slices.Contains(usual, found) })
}

// ownDirectories are the directories of a template's sidecars: of their mounts and commands.
func ownDirectories(fragment map[string]any) []string {
	var own []string
	for _, found := range pathsIn(fragment, true) {
		if place, text, _ := strings.Cut(found, " "); strings.HasSuffix(place, ".mountPath") {
			own = append(own, text, text+"/x")
		}
	}
	spec, _ := fragment["spec"].(map[string]any)
	items, _ := spec["initContainers"].([]any)
	for _, item := range items {
		if command, _ := item.(map[string]any)["command"].([]any); len(command) > 0 && strings.HasPrefix(command[0].(string), "/") {
			own = append(own, command[0].(string), path.Dir(command[0].(string)))
		}
	}
	return own
}

// ofPaths matches the names of parameters that are paths, whatever becomes of them.
var ofPaths = regexp.MustCompile(`(?i)path$|directory$|^database$`)

// shipped are the templates of the library and of the examples.
func shipped(t *testing.T) []*templates.Template {
	t.Helper()
	var all []*templates.Template
	for _, name := range charts.Names() {
		all = append(all, compile(t, name, nil, nil))
	}
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range append(files, "../examples/sidecartemplate.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, _, err := templates.Compile(text, templates.Options{Source: file})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tmpl)
	}
	return all
}

// A path that a team sets lies over files of a container. So a parameter that reaches a path
// takes clean absolute paths below directories that its pattern names, and no others.
func TestEveryParameterThatReachesAPathIsBounded(t *testing.T) {
	reached := 0
	for _, tmpl := range shipped(t) {
		render := func(key, value string) (map[string]any, error) {
			in := templates.Input{Pod: fragmenttest.Decode(t, fullPod), Namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{}}}
			if key != "" {
				in.Namespace.Annotations[key] = value
			}
			r, err := tmpl.RenderExample(in, true)
			if err != nil {
				return nil, err
			}
			return fragmenttest.Object(r.Fragment), nil
		}
		usual, err := render("", "")
		if err != nil {
			t.Fatalf("%s: %v", tmpl.Name(), err)
		}
		for _, p := range tmpl.Parameters() {
			kind, key, c := p.Type, p.Annotation, p.Constraints
			if p.Items != nil {
				kind, key, c = p.Items.Type, strings.TrimSuffix(key, "KEY")+"db", p.Items.Constraints
			}
			if p.Type != v1alpha1.Map {
				key = p.Annotation
			}
			if kind != v1alpha1.String || c.Enum != nil || !slices.Contains(p.SetBy, v1alpha1.Namespace) {
				continue
			}
			stray := slices.Clone(strayPaths)
			for _, good := range []string{plainJSON(p.Default), plainJSON(p.Example)} {
				if good != "" && !strings.HasPrefix(good, "{") && !strings.HasPrefix(good, "[") {
					stray = append(stray, strayFrom(good)...)
				}
			}
			overOwn := ownDirectories(usual)
			for _, value := range append(stray, overOwn...) {
				if p.Type == v1alpha1.List && value == "" {
					continue
				}
				got, err := render(key, value)
				var refused *templates.ParameterError
				if errors.As(err, &refused) {
					continue
				}
				if err != nil {
					t.Errorf("%s: with the parameter %s %q: %v", tmpl.Name(), p.Name, value, err)
					continue
				}
				// What is good for the app's containers alone may be a sidecar's own.
				overlay := slices.Contains(overOwn, value)
				if !adds(pathsIn(got, overlay), pathsIn(usual, overlay)) && (overlay || !ofPaths.MatchString(p.Name)) {
					continue
				}
				if slices.Contains([]string{plainJSON(p.Default), plainJSON(p.Example)}, value) {
					continue
				}
				t.Errorf("%s: the parameter %s reaches a path, and takes %q", tmpl.Name(), p.Name, value)
			}
			if ofPaths.MatchString(p.Name) {
				reached++
			}
		}
	}
	if reached < 5 {
		t.Errorf("the test knows %d parameters for paths", reached)
	}
}

// The same for the annotations of other injectors.
func TestEveryVendorAnnotationThatReachesAPathIsBounded(t *testing.T) {
	for name := range vendorPrefixes {
		tmpl := compile(t, name, nil, nil)
		keys := vendorKeys(t, tmpl)
		render := func(annotations map[string]string) map[string]any {
			r, err := tmpl.Render(t.Context(), annotated(annotations))
			var refused *templates.ParameterError
			if errors.As(err, &refused) {
				return nil
			}
			if err != nil {
				t.Fatalf("%s with %q: %v", name, annotations, err)
			}
			if r.Unmet != nil || len(r.Invalid) > 0 {
				return nil
			}
			return fragmenttest.Object(r.Fragment)
		}
		plain := map[string]string{}
		if name == "vault-agent" {
			plain = map[string]string{"vault.hashicorp.com/role": "zq", "vault.hashicorp.com/agent-inject-secret-db": "zq/a"}
		}
		usual := render(plain)
		if usual == nil {
			t.Fatalf("%s: the plain pod is refused", name)
		}
		usualPaths, usualOwn := pathsIn(usual, false), pathsIn(usual, true)
		for _, key := range keys {
			if strings.HasSuffix(key, "-") {
				key += "db"
			}
			for _, value := range append(append(slices.Clone(strayPaths), ownDirectories(usual)...), strayFrom("/srv/zq")...) {
				for _, form := range []string{value, "data:" + value, "data:/mnt/usual, data:" + value} {
					annotations := maps.Clone(plain)
					annotations[key] = form
					if form == "" {
						continue // as if it was not there
					}
					got := render(annotations)
					if got == nil || !adds(pathsIn(got, false), usualPaths) {
						continue
					}
					if !slices.Contains(strayPaths, value) && !adds(pathsIn(got, true), usualOwn) {
						continue // a directory of the sidecar's, in the app's containers
					}
					t.Errorf("%s: the annotation %s reaches a path, and takes %q", name, key, form)
				}
			}
		}
	}
}
