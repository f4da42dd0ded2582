package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

func TestAViewerOfTheClusterReadsTheLibrary(t *testing.T) {
	t.Parallel()
	user := unique("viewer")
	must(t, "", "kubectl", "create", "clusterrolebinding", user, "--clusterrole=view", "--user="+user)
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "kubectl", "delete", "clusterrolebinding", user); err != nil {
			t.Error(err)
		}
	})
	eventually(t, soon, func() error {
		out, stderr, err := run(t, "", "kubectl", "get", "sct", "fluent-bit", "-o", "jsonpath={.spec.parameters[*].name}", "--as="+user)
		if err == nil && !strings.Contains(out, "logLevel") {
			err = fmt.Errorf("the parameters are %q", out)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
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
		for _, want := range []string{"SidecarTemplate fluent-bit is a read-only copy of what Pillion serves from Pillion's library", "take another name", "(TemplateReadOnly)"} {
			if err == nil || !strings.Contains(stderr, want) {
				t.Errorf("%s: %v\n%s\nwant %q", what, err, stderr, want)
			}
		}
	}
	labelled := manifest{name: unique("side"), spec: sidecarSpec}
	text := strings.Replace(labelled.yaml(), "metadata: {", "metadata: {labels: {"+mirrorLabel+": 'true'}, ", 1)
	if _, stderr, err := run(t, text, "kubectl", "create", "-f", "-"); err == nil || !strings.Contains(stderr, "take it off (TemplateReadOnly)") {
		t.Errorf("a template with the label: %v\n%s", err, stderr)
	}

	uid := func() string {
		out, _, _ := run(t, "", "kubectl", "get", "sct", "statsd-exporter", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
		return out
	}
	before := uid()
	_, stderr, err := run(t, "", "kubectl", "delete", "sct", "statsd-exporter")
	if err != nil || !strings.Contains(stderr, "Pillion makes it again") {
		t.Errorf("the deletion: %v\n%s", err, stderr)
	}
	took := eventually(t, soon, func() error {
		if now := uid(); now == "" || now == before {
			return fmt.Errorf("it is %q, and was %q", now, before)
		}
		return nil
	})
	t.Attr("deleted-template-shown-again", took.Round(10*time.Millisecond).String())
}

// RBAC gives Pillion the right to write SidecarTemplates, and the chart's policy leaves it
// mirrors, from which nothing is injected.
func TestAStolenTokenCanMakeNoTemplateThatIsInjected(t *testing.T) {
	t.Parallel()
	real := newTemplate(t)
	api := thiefsTemplates(t)
	object := func(name string, labels map[string]string) *unstructured.Unstructured {
		return manifest{name: name, spec: sidecarSpec}.unstructured(t, labels)
	}
	dry := []string{metav1.DryRunAll}
	is := map[string]string{mirrorLabel: "true"}
	update := func(name string, labels map[string]string) error {
		var o *unstructured.Unstructured
		var err error
		for range 20 { // Pillion writes the status meanwhile
			if o, err = adminTemplates(t).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				return err
			}
			o.SetLabels(labels)
			if _, err = api.Update(t.Context(), o, metav1.UpdateOptions{DryRun: dry}); !apierrors.IsConflict(err) {
				break
			}
		}
		return err
	}
	create := func(labels map[string]string) error {
		_, err := api.Create(t.Context(), object(unique("thief"), labels), metav1.CreateOptions{DryRun: dry})
		return err
	}
	eventually(t, soon, func() error { return update("fluent-bit", is) })
	for what, c := range map[string]struct {
		err     error
		allowed bool
	}{
		"a template":                     {create(nil), false},
		"a template with another value":  {create(map[string]string{mirrorLabel: "false"}), false},
		"a mirror":                       {create(is), true},
		"a real template changed":        {update(real, map[string]string{"a": "b"}), false},
		"a real template made a mirror":  {update(real, is), false},
		"a mirror made a template":       {update("fluent-bit", nil), false},
		"a mirror changed":               {update("fluent-bit", map[string]string{mirrorLabel: "true", "a": "b"}), true},
		"a real template deleted":        {api.Delete(t.Context(), real, metav1.DeleteOptions{DryRun: dry}), false},
		"a mirror deleted":               {api.Delete(t.Context(), "fluent-bit", metav1.DeleteOptions{DryRun: dry}), true},
		"all deleted":                    {api.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}), false},
		"a mirror patched to be none":    {patchError(api.Patch(t.Context(), "fluent-bit", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{DryRun: dry})), false},
		"a template made by a patch":     {patchError(api.Apply(t.Context(), unique("thief"), object(unique("thief"), nil), metav1.ApplyOptions{FieldManager: "thief", DryRun: dry})), false},
		"a status with another's labels": {patchError(api.Patch(t.Context(), real, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+mirrorLabel+`":"true"}}}`), metav1.PatchOptions{DryRun: dry}, "status")), true},
	} {
		if c.allowed && c.err != nil || !c.allowed && !apierrors.IsForbidden(c.err) {
			t.Errorf("%s: %v; want it allowed: %t", what, c.err, c.allowed)
		}
	}
	ofStatus, err := api.Patch(t.Context(), real, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+mirrorLabel+`":"true"}}}`), metav1.PatchOptions{DryRun: dry}, "status")
	if err != nil || ofStatus.GetLabels()[mirrorLabel] != "" {
		t.Errorf("by a write of the status the labels are %v, %v", ofStatus.GetLabels(), err)
	}

	// A mirror that the thief makes injects nothing, and does not stay.
	name := unique("thief")
	if _, err := api.Create(t.Context(), object(name, is), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n := newNamespace(t, nil, nil)
	began := time.Now()
	eventually(t, soon, func() error {
		if _, err := n.preview(t, newPod("web", asking(name))); err == nil || !strings.Contains(err.Error(), "UnknownTemplate") {
			t.Fatalf("a pod that asks for the thief's mirror: %v", err)
		}
		if _, err := adminTemplates(t).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the thief's mirror is still there"), err)
		}
		return nil
	})
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it went within %s: too soon for the pods to show anything", took)
	}
	// What it did to a mirror is undone.
	shown := showFalsely(t, "pod-defaults")
	eventually(t, soon, func() error {
		o, err := adminTemplates(t).Get(t.Context(), "pod-defaults", metav1.GetOptions{})
		if err == nil && fmt.Sprint(o.Object["spec"]) != shown {
			err = fmt.Errorf("the mirror shows %v", o.Object["spec"])
		}
		return err
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
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(templatesResource)
}

func (m manifest) unstructured(t *testing.T, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(m.yaml()), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetLabels(labels)
	return o
}

func patchError(_ *unstructured.Unstructured, err error) error { return err }

// adminTemplates are the SidecarTemplates as an admin has them.
func adminTemplates(t *testing.T) dynamic.NamespaceableResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
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
