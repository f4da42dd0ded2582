package injector

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/pillion-dev/pillion/"

// list returns what a package of this module imports, by go list.
func list(t *testing.T, deep bool, pkg string) []string {
	t.Helper()
	args := []string{"list", "-f", `{{join .Imports "\n"}}`, module + pkg}
	if deep {
		args = []string{"list", "-deps", module + pkg}
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return strings.Fields(string(out))
}

// TestTheArrowsPointOneWay holds the import graph that docs describe: a pure core
// (injector, policy, merge, patch, templates) and edges that do not know each other.
func TestTheArrowsPointOneWay(t *testing.T) {
	clients := []string{"net/http", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/rest"}
	for pkg, forbidden := range map[string][]string{
		"injector/reason":     {module},
		"injector/policy":     append(clients, module+"injector/merge", module+"injector/patch", module+"templates"),
		"injector/merge":      append(clients, module+"injector/policy", module+"injector/patch"),
		"injector/patch":      append(clients, module+"injector/policy", module+"injector/merge", module+"templates"),
		"injector/workload":   append(clients, module),
		"templates":           append(clients, module+"injector", module+"certs"),
		"templates/podschema": append(clients, module),
		"templates/v1alpha1":  append(clients, module),
		"templates/library":   append(clients, module),
		"templates/lint":      append(clients, module+"injector/policy", module+"certs", module+"cmd"),
		"templates/live":      {module + "injector", module + "certs"},
		"templates/cases":     append(clients, module+"certs", module+"cmd"),
		"injector/effects":    {module + "certs", module + "templates"},
		"injector/namespaces": {module + "certs", module + "injector"},
		"injector":            append(clients, module+"injector/effects", module+"injector/webhook", module+"certs", module+"cmd"),
		"injector/webhook":    append(clients[1:], module+"injector/merge", module+"injector/namespaces", module+"certs", module+"cmd"),
		"certs":               {module + "injector", module + "templates", module + "cmd"},
	} {
		for _, imported := range list(t, false, pkg) {
			for _, f := range forbidden {
				if imported == f || strings.HasPrefix(imported, strings.TrimSuffix(f, "/")+"/") {
					t.Errorf("%s imports %s", pkg, imported)
				}
			}
		}
	}
}

func TestOnlyOnePackageKnowsEachOfTheseLibraries(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		for _, imported := range fields[1:] {
			switch {
			case imported == "github.com/mattbaird/jsonpatch" && pkg != "injector/patch",
				strings.HasPrefix(imported, "github.com/cert-manager/") && pkg != "certs",
				imported == "github.com/spf13/viper" && pkg != "cmd/pillion",
				strings.HasPrefix(imported, "sigs.k8s.io/controller-runtime"):
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}

func TestTheServingBinaryHasNoControllerRuntime(t *testing.T) {
	for _, dep := range list(t, true, "cmd/pillion") {
		if strings.HasPrefix(dep, "sigs.k8s.io/controller-runtime") {
			t.Errorf("cmd/pillion depends on %s", dep)
		}
	}
}
