package injector

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pillion-dev/pillion/"

// TestTheArrowsPointOneWay holds the import graph: a pure core (injector, policy, merge,
// patch, templates), lint above it, and edges that do not know each other.
func TestTheArrowsPointOneWay(t *testing.T) {
	clients := []string{"net/http", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", "k8s.io/client-go/rest"}
	for pkg, forbidden := range map[string][]string{
		"injector/reason":           {module},
		"injector/owner":            append(clients, "k8s.io/client-go", module),
		"injector/entries":          append(clients, "k8s.io/client-go", module+"injector", module+"certs"),
		"injector/policy":           append(clients, module+"injector/merge", module+"injector/patch"),
		"injector/patch":            append(clients, module+"injector"),
		"templates":                 append(clients, module+"certs"),
		"templates/podschema":       append(clients, module+"injector"),
		"templates/rawjson":         append(clients, module+"injector"),
		"templates/v1alpha1":        append(clients, module),
		"charts":                    append(clients, module),
		"controller/store":          {module + "certs"},
		"controller/uninstall":      {"k8s.io/client-go/kubernetes", module + "webhook", module + "controller/labels", module + "templates", module + "injector", module + "certs"},
		"injector/workload":         append(clients, module+"injector", module+"certs"),
		"templates/admissionpolicy": append(clients, module+"injector", module+"certs"),
		"lint/oracle":               append(clients, module+"injector", module+"certs"),
		"templates/samples":         append(clients, module+"injector", module+"certs"),
		"templates/schema":          append(clients, module),
		"lint":                      append(clients, module+"injector/policy", module+"certs"),
		"lint/cases":                append(clients, module+"certs"),
		"controller/events":         {module + "certs", module + "templates"},
		"controller/namespaces":     {module + "certs", module + "webhook", module + "injector/policy", module + "injector/merge"},
		"controller/coverage":       append(clients, "k8s.io/client-go", module+"webhook", module+"controller/namespaces", module+"certs"),
		"controller/labels":         append(clients[:3:3], "k8s.io/client-go/rest", module+"webhook", module+"controller/namespaces", module+"injector/merge", module+"certs"),
		"injector/drift":            append(clients, module+"controller", module+"webhook", module+"controller/namespaces", module+"certs"),
		"injector/keys":             append(clients, "k8s.io/client-go", module+"injector", module+"certs"),
		"controller/proof":          append(clients, module+"webhook", module+"controller/namespaces", module+"certs"),
		"controller/settings":       append(clients, "k8s.io/client-go", module+"webhook", module+"inspect", module+"certs"),
		"controller/workloads":      {"k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", module + "templates/v1alpha1", module + "webhook", module + "controller/namespaces", module + "certs"},
		"injector":                  append(clients, module+"controller", module+"webhook", module+"certs"),
		"webhook":                   append(clients[1:], module+"injector/merge", module+"controller/namespaces", module+"certs"),
		"inspect":                   {"k8s.io/client-go/kubernetes", module + "controller/namespaces", module + "certs", module + "rollout"},
		"inspect/check":             append(clients, "k8s.io/client-go", module+"webhook", module+"certs", module+"rollout"),
		"inspect/explain":           append(clients, module+"webhook", module+"controller/namespaces", module+"certs"),
		"webhook/state":             append(clients, "k8s.io", module),
		"rollout":                   {"net/http", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", module + "webhook", module + "certs"},
		"certs":                     {module + "injector", module + "templates"},
		"controller/follow":         append(clients, module),
		"controller/reconcile":      append(clients, module),
		"controller/rights":         append(clients, "k8s.io/client-go", module),
		"controller/waiting":        append(clients, "k8s.io", module),
		"controller/clientset":      {"k8s.io/client-go/dynamic", "k8s.io/client-go/metadata", module},
	} {
		for _, imported := range importsOf(t, pkg) {
			if leaf(imported) {
				continue
			}
			for _, f := range forbidden {
				if within(imported, f) {
					t.Errorf("%s imports %s", pkg, imported)
				}
			}
		}
	}
}

// TestTheStepsOfThePipelineImportNoMoreThanTheySay holds the core to its few arrows: each
// step may import these packages of the module, and none of the network.
func TestTheStepsOfThePipelineImportNoMoreThanTheySay(t *testing.T) {
	for pkg, allowed := range map[string][]string{
		"injector/policy":     {"injector/reason", "templates/nearest", "templates/show", "templates/v1alpha1"},
		"injector/record":     {"templates/podschema", "templates/rawjson", "templates/v1alpha1"},
		"injector/merge":      {"templates/directive", "templates/fragment", "templates/podschema", "templates/rawjson"},
		"injector/apply":      {"injector/merge", "injector/patch", "injector/record", "templates/podschema", "templates/rawjson", "templates/v1alpha1"},
		"injector/required":   {"injector/apply", "injector/patch", "templates/directive", "templates/fragment", "injector/merge", "injector/record", "templates/podschema", "templates/rawjson"},
		"injector/ports":      {"injector/merge", "templates/directive", "templates/fragment", "templates/podschema"},
		"injector/patch":      {"templates/rawjson"},
		"injector/reason":     {},
		"templates/directive": {"templates/nearest", "templates/podschema", "templates/rawjson"},
		"templates/fragment":  {"templates/directive", "templates/podschema", "templates/rawjson"},
		"templates/expression": {
			"templates/manifest", "templates/nearest", "templates/param", "templates/podschema", "templates/rawjson", "templates/show", "templates/v1alpha1",
		},
		"templates/podschema": {"templates/rawjson"},
		"templates/rawjson":   {},
	} {
		for _, imported := range importsOf(t, pkg) {
			inside, ours := strings.CutPrefix(imported, module)
			client := strings.HasPrefix(imported, "k8s.io/client-go/")
			network := imported == "net/http" && pkg != "injector/reason" // reason knows the codes of HTTP
			if ours && !slices.Contains(allowed, inside) || client || network {
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}

// TestTheServerIsBuiltOfWhatItRuns holds the server to the packages that answer reviews and follow the cluster: what
// commands read, print and change of a cluster is not linked into it.
func TestTheServerIsBuiltOfWhatItRuns(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"cmd/pillion-webhook").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for pkg := range strings.Lines(string(out)) {
		for _, forbidden := range []string{"inspect", "rollout", "charts", "lint/cases"} {
			if within(strings.TrimSpace(pkg), module+forbidden) {
				t.Errorf("the server imports %s", strings.TrimSpace(pkg))
			}
		}
	}
}

// leaf reports whether a package is one without any client that every package above templates may import.
func leaf(pkg string) bool {
	return slices.Contains([]string{"controller/reconcile", "controller/waiting", "controller/rights", "injector/owner", "injector/workload", "templates/nearest", "templates/show", "webhook/state"}, strings.TrimPrefix(pkg, module))
}

// within reports whether a package is the other one, or in a folder of it.
func within(pkg, other string) bool {
	other = strings.TrimSuffix(other, "/")
	return pkg == other || strings.HasPrefix(pkg, other+"/")
}

// TestTheTreesAreLayers holds the arrows between the folders at the top: templates is below injector, which is
// below lint, webhook, controller, inspect and rollout, and cmd is above all. certs and injector do not know each other.
func TestTheTreesAreLayers(t *testing.T) {
	for pkg, imports := range imports(t) {
		for _, imported := range imports {
			into := func(tree string) bool { return within(imported, module+tree) }
			switch {
			case into("cmd"),
				within(pkg, "templates") && into("injector"),
				into("certs") && !within(pkg, "certs") && !within(pkg, "cmd"),
				into("controller") && (within(pkg, "templates") || within(pkg, "injector") || within(pkg, "lint")) && !leaf(imported),
				into("webhook") && !within(pkg, "webhook") && !within(pkg, "inspect") && !within(pkg, "cmd"),
				into("rollout") && !within(pkg, "rollout") && !within(pkg, "cmd"),
				into("inspect") && !within(pkg, "inspect") && !within(pkg, "cmd"),
				into("lint") && !within(pkg, "lint") && !within(pkg, "cmd"):
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}

// listed is what each package of this module imports, by its path in the module.
var listed = sync.OnceValues(func() (map[string][]string, error) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, out)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		all[strings.TrimPrefix(fields[0], module)] = fields[1:]
	}
	return all, nil
})

func imports(t *testing.T) map[string][]string {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func importsOf(t *testing.T, pkg string) []string {
	t.Helper()
	imported, there := imports(t)[pkg]
	if !there {
		t.Errorf("there is no package %s", pkg)
	}
	return imported
}

func TestOnlyOnePackageKnowsEachOfTheseLibraries(t *testing.T) {
	for pkg, imports := range imports(t) {
		for _, imported := range imports {
			switch {
			case imported == "github.com/mattbaird/jsonpatch" && pkg != "injector/patch",
				strings.HasPrefix(imported, "github.com/cert-manager/") && pkg != "certs",
				strings.HasPrefix(imported, "github.com/google/cel-go/") && pkg != "templates/expression",
				imported == "github.com/spf13/viper" && pkg != "controller/settings",
				strings.HasPrefix(imported, "sigs.k8s.io/controller-runtime"):
				t.Errorf("%s imports %s", pkg, imported)
			}
		}
	}
}
