package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/templates/library"
)

const mirrorLabel = "pillion.dev/mirror"

var templatesResource = schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}

// mirrors returns the fields of `kubectl get sct` for each mirror of a resource, by name.
func mirrors(t *testing.T, resource string, args ...string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	label, _, _ := strings.Cut(strings.TrimPrefix(resource, "sidecartemplates."), "/")
	out, stderr, err := run(t, "", "kubectl", append([]string{"get", resource, "-l", label + "/mirror=true", "--no-headers"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		rows[fields[0]] = fields
	}
	return rows
}

// The columns of `kubectl get sct`.
const (
	columnReady = 1 + iota
	columnDefault
	columnOrder
	columnNamespaces
	columnSource
	columnHash
)

func TestTheLibraryIsShownAsSidecarTemplatesWithEveryColumn(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("git-sync"), nil)
	var rows map[string][]string
	eventually(t, soon, func() error {
		rows = mirrors(t, "sidecartemplates.pillion.dev")
		for _, name := range library.Names() {
			row := rows[name]
			if len(row) != 8 || row[columnReady] != "True" || row[columnSource] != "library" || len(row[columnHash]) != 16 || row[columnDefault] != "false" {
				return fmt.Errorf("kubectl get sct says of %s: %q", name, row)
			}
		}
		if rows["git-sync"][columnNamespaces] == "0" {
			return fmt.Errorf("git-sync is in force in namespace %s, and kubectl get sct says %q", n.name, rows["git-sync"])
		}
		return nil
	})
	if header := strings.Fields(must(t, "", "kubectl", "get", "sct", "fluent-bit")); !slices.Equal(header[:8], []string{"NAME", "READY", "DEFAULT", "ORDER", "NAMESPACES", "SOURCE", "HASH", "AGE"}) {
		t.Errorf("the columns are %q", header)
	}
	// The order is what pods get them in, and the hash what they carry.
	if vault, bundle := rows["vault-agent"][columnOrder], rows["ca-bundle"][columnOrder]; vault == "0" || vault == bundle {
		t.Errorf("the orders are %s and %s", vault, bundle)
	}
	pod, err := n.preview(t, newPod("web", map[string]string{injectAnnotation: "debug-toolbox"}))
	if err != nil || !strings.Contains(pod.Annotations["pillion.dev/status"], rows["debug-toolbox"][columnHash]) {
		t.Errorf("the record of a pod (%v) lacks the hash %s", err, rows["debug-toolbox"][columnHash])
	}
	shown := must(t, "", "kubectl", "get", "sct", "debug-toolbox", "-o", "yaml")
	for _, want := range []string{"default: " + mirrored, "the Helm value library names debug-toolbox", "observedGeneration: 1", "source: library"} {
		if !strings.Contains(shown, want) {
			t.Errorf("kubectl get sct -o yaml lacks %q:\n%s", want, shown)
		}
	}
	// What a real template is.
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	eventually(t, soon, func() error {
		if row := strings.Fields(must(t, "", "kubectl", "get", "sct", m.name, "--no-headers")); len(row) != 8 || row[columnSource] != "cluster" {
			return fmt.Errorf("kubectl get sct says %q", row)
		}
		return nil
	})
}

func TestAShownTemplateCanBeChangedByNobodyAndIsBackWhenItIsDeleted(t *testing.T) {
	t.Parallel()
	eventually(t, soon, func() error {
		if rows := mirrors(t, "sidecartemplates.pillion.dev"); len(rows) < len(library.Names()) {
			return fmt.Errorf("there are %d mirrors", len(rows))
		}
		return nil
	})
	own := manifest{name: "fluent-bit", spec: sidecarSpec}
	for what, c := range map[string]struct {
		input string
		args  []string
	}{
		"its spec":                 {"", []string{"patch", "sct", "fluent-bit", "--type=merge", "-p", `{"spec":{"order":1}}`}},
		"its label":                {"", []string{"label", "sct", "fluent-bit", mirrorLabel + "-"}},
		"another value":            {"", []string{"label", "sct", "fluent-bit", mirrorLabel + "=no", "--overwrite"}},
		"an annotation":            {"", []string{"annotate", "sct", "fluent-bit", "a=b"}},
		"one's own":                {own.yaml(), []string{"apply", "-f", "-"}},
		"one's own, by the server": {own.yaml(), []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}},
	} {
		_, stderr, err := run(t, c.input, "kubectl", c.args...)
		for _, want := range []string{"SidecarTemplate fluent-bit is a read-only copy of a template that Pillion serves from Pillion's library", "choose another name", "(TemplateReadOnly)"} {
			if err == nil || !strings.Contains(stderr, want) {
				t.Errorf("%s: %v\n%s\nwant %q", what, err, stderr, want)
			}
		}
	}
	labelled := manifest{name: unique("side"), spec: sidecarSpec}
	text := strings.Replace(labelled.yaml(), "metadata: {", "metadata: {labels: {"+mirrorLabel+": 'true'}, ", 1)
	if _, stderr, err := run(t, text, "kubectl", "create", "-f", "-"); err == nil || !strings.Contains(stderr, "remove it (TemplateReadOnly)") {
		t.Errorf("a template with the label: %v\n%s", err, stderr)
	}

	uid := func() string {
		out, _, _ := run(t, "", "kubectl", "get", "sct", "statsd-exporter", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
		return out
	}
	before := uid()
	_, stderr, err := run(t, "", "kubectl", "delete", "sct", "statsd-exporter")
	if err != nil || !strings.Contains(stderr, "Pillion creates it again") {
		t.Errorf("the deletion: %v\n%s", err, stderr)
	}
	eventually(t, soon, func() error {
		if now := uid(); now == "" || now == before {
			return fmt.Errorf("it is %q, and was %q", now, before)
		}
		return nil
	})
}

// showFalsely changes a mirror with Pillion's token, and returns the spec that it had.
func showFalsely(t *testing.T, name string) (spec string) {
	t.Helper()
	eventually(t, soon, func() error {
		o, err := adminTemplates(t).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec = fmt.Sprint(o.Object["spec"])
		o.Object["spec"] = map[string]any{"description": "the thief's", "inject": map[string]any{}}
		_, err = thiefsTemplates(t).Update(t.Context(), o, metav1.UpdateOptions{})
		return err
	})
	return spec
}

// thiefsTemplates are the SidecarTemplates as the holder of Pillion's token has them.
func thiefsTemplates(t *testing.T) dynamic.NamespaceableResourceInterface {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: system(ground.Namespace, "pillion"), Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	c, err := dynamic.NewForConfig(as)
	expectNoError(t, err)
	return c.Resource(templatesResource)
}

func (m manifest) unstructured(t *testing.T, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	expectNoError(t, yaml.Unmarshal([]byte(m.yaml()), &o.Object))
	o.SetLabels(labels)
	return o
}

func patchError(_ *unstructured.Unstructured, err error) error { return err }

// adminTemplates are the SidecarTemplates as an admin has them.
func adminTemplates(t *testing.T) dynamic.NamespaceableResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	expectNoError(t, err)
	return c.Resource(templatesResource)
}

func TestAHardenedInstallShowsNoTemplatesAndHasNoRightTo(t *testing.T) {
	t.Parallel()
	sets := [][]string{{"clusterTemplates=false"}, {"rbac.admissionPolicy=false"}, {"mirrorTemplates=false"}}
	for _, hard := range hardened {
		sets = append(sets, hard)
	}
	looks := func(sets ...string) (rights, policy, argument bool) {
		objects := render(t, sets...)
		for _, rules := range roles(t, objects) {
			for _, r := range rules {
				rights = rights || slices.Contains(r.Resources, "sidecartemplates") && slices.Contains(r.Verbs, "create")
				rights = rights || slices.Contains(r.Resources, "validatingadmissionpolicies")
			}
		}
		_, policy = policies(t, objects)["mirrors"]
		return rights, policy, strings.Contains(pretty(objects), "--mirror-policy=")
	}
	for _, set := range sets {
		if rights, policy, argument := looks(set...); rights || policy || argument {
			t.Errorf("with %q: rights %t, policy %t, argument %t", set, rights, policy, argument)
		}
	}
	if rights, policy, argument := looks(); !rights || !policy || !argument {
		t.Errorf("by default: rights %t, policy %t, argument %t", rights, policy, argument)
	}
}

// Templates are in no namespace, so whoever may view one only may not read them, unless
// the chart is told to let everybody.
func TestEverybodyMayReadTemplatesWhereTheChartSaysSo(t *testing.T) {
	t.Parallel()
	const prefix = "readers.example.com" // a group of its own: other tests ask about pillion.dev
	namespace := newNamespace(t, nil, nil).name
	user := unique("viewer")
	must(t, "", "kubectl", "-n", namespace, "create", "rolebinding", user, "--clusterrole=view", "--user="+user)
	may := func(user, verb string) bool {
		t.Helper()
		return isAllowed(t, client, right{verb: verb, group: prefix, resource: "sidecartemplates"}, user)
	}
	apply := func(sets ...string) {
		t.Helper()
		args := append([]string{"template", "readers", checkout.Chart(), "-n", namespace, "--show-only", "templates/rbac.yaml", "--set", "annotationPrefix=" + prefix}, flags(sets)...)
		must(t, must(t, "", "helm", args...), "kubectl", "apply", "-f", "-")
	}
	t.Cleanup(func() { remove(t, "clusterrolebinding,clusterrole", "-l", "app.kubernetes.io/instance=readers") })
	apply()
	// When this right is in force, so is what else was applied.
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole=readers-pillion-"+namespace+"-view", "--user="+user+"-of-all")
	t.Cleanup(func() { remove(t, "clusterrolebinding/"+user) })
	eventually(t, soon, func() error {
		if !may(user+"-of-all", "list") {
			return errors.New("whoever is bound to the view role in the whole cluster may not list templates")
		}
		return nil
	})
	if may(user, "list") {
		t.Error("a viewer of one namespace may list templates")
	}
	apply("rbac.everyoneReadsTemplates=true")
	eventually(t, soon, func() error {
		for verb, want := range map[string]bool{"get": true, "list": true, "watch": true, "create": false, "patch": false, "delete": false} {
			if got := may(user, verb); got != want {
				return fmt.Errorf("everybody may %s templates: %t, want %t", verb, got, want)
			}
		}
		return nil
	})
}
