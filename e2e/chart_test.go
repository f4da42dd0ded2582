package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/e2e/ground"
)

// rendered are the objects of a chart.
type rendered []unstructured.Unstructured

// renderings are what Helm printed, by the values. A rendering is made once.
var renderings sync.Map

// render is helm template with values as --set has them.
func render(t *testing.T, sets ...string) rendered {
	t.Helper()
	out, err := rendering(sets)
	expectNoError(t, err)
	return objectsIn(t, out)
}

// objectsIn are the objects of manifests, none of which may have a key twice.
func objectsIn(t *testing.T, manifests string) rendered {
	t.Helper()
	var objects rendered
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		expectNoError(t, err)
		text, err := yaml.YAMLToJSONStrict(document)
		if err == nil && string(text) == "null" {
			continue
		}
		var object unstructured.Unstructured
		if err == nil {
			err = object.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatalf("the rendered chart: %v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

func rendering(sets []string) (string, error) {
	made, _ := renderings.LoadOrStore(strings.Join(sets, "\x00"), sync.OnceValues(func() (string, error) {
		return ground.Run(context.Background(), shared, "helm", append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace}, flags(sets)...)...)
	}))
	return made.(func() (string, error))()
}

func flags(sets []string) []string {
	var flags []string
	for _, set := range sets {
		flags = append(flags, "--set", set)
	}
	return flags
}

// only is the one object of its kind, read into a T.
func only[T any](t *testing.T, objects rendered, kind string) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		var value T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &value, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, value)
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s, want one", len(found), kind)
	}
	return found[0]
}

// Each of these is refused with a message that names it.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Sets, Says []string
		Text       string // of a file of --set-file templates.own
	}
	fromYAML(t, "testdata/refused-values.yaml", &cases)
	for _, c := range cases {
		more := []string{"-n", ground.Namespace}
		if c.Text != "" {
			more = append(more, "--set-file", "templates.own="+inFile(t, "own.yaml", c.Text))
		}
		refuses(t, c.Sets, c.Says, more...)
	}
	// A Secret in kube-system can be a bootstrap token.
	refuses(t, nil, []string{"rbac.createSecrets"}, "-n", "kube-system")
	must(t, "", "helm", "template", "x", checkout.Chart(), "-n", "kube-system", "--set", "rbac.createSecrets=false")
}

// refuses fails the test unless the chart with these values, and more arguments of Helm, is refused
// with each of the texts.
func refuses(t *testing.T, sets, says []string, more ...string) {
	t.Helper()
	_, stderr, err := run(t, "", "helm", slices.Concat([]string{"template", "x", checkout.Chart()}, flags(sets), more)...)
	wantNoError(t, refusedWith(err), sets)
	wantTexts(t, "Helm", stderr, says...)
}

// An absent value is the chart's: `helm upgrade --reuse-values` brings the values of a chart that had
// fewer of them. A null takes a value away, and so stands for that here.
func TestAValueThatIsNotThereIsAsTheChartHasIt(t *testing.T) {
	t.Parallel()
	var values map[string]any
	fromYAML(t, filepath.Join(checkout.Chart(), "values.yaml"), &values)
	whole := must(t, "", "helm", "template", "x", checkout.Chart())
	for depth := range 4 {
		text, err := json.Marshal(without(values, depth))
		expectNoError(t, err)
		if got := must(t, "", "helm", "template", "x", checkout.Chart(), "-f", inFile(t, "values.yaml", string(text))); got != whole {
			t.Errorf("with the values %s the chart renders\n%s\nand with none\n%s", text, got, whole)
		}
	}
}

// takenAway are maps of which a null takes an entry away, which is meant.
var takenAway = []string{"resources", "labels", "podSecurityContext"}

// without returns values in which everything of a depth is null, but for what is in takenAway.
func without(values map[string]any, depth int) map[string]any {
	less := map[string]any{}
	for key, value := range values {
		below, isMap := value.(map[string]any)
		switch {
		case depth == 0:
			less[key] = nil
		case isMap && !slices.Contains(takenAway, key):
			less[key] = without(below, depth-1)
		}
	}
	return less
}

func TestPillionsOwnPodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	deployment := only[appsv1.Deployment](t, render(t), "Deployment")
	spec := deployment.Spec.Template.Spec
	spec.ServiceAccountName = "default"
	wantNoError(t, errorOf(n.preview(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pillion"}, Spec: spec})))
	if _, err := n.preview(t, newPod("plain", nil)); err == nil {
		t.Error("the namespace admits a pod that does not meet the standard, so that this test shows nothing")
	}
}

// hardened are the ways to install with rbac.hardened.
var hardened = map[string][]string{
	"files":        {"rbac.hardened=true", "certs.provider=files", "certs.files.secretName=mine"},
	"cert-manager": {"rbac.hardened=true", "certs.provider=cert-manager"},
}

// roles are the rules of all Roles and ClusterRoles, with the name of their role.
func roles(t *testing.T, objects rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			all[kind+" "+object.GetName()] = only[rbacv1.ClusterRole](t, rendered{object}, kind).Rules
		}
	}
	return all
}

// policies are the ValidatingAdmissionPolicies that are bound, by what their names end in.
func policies(t *testing.T, objects rendered) map[string]admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	bound, all := map[string]bool{}, map[string]admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			binding := only[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, rendered{object}, object.GetKind())
			bound[binding.Spec.PolicyName] = slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
		}
	}
	for _, object := range objects {
		if name := object.GetName(); object.GetKind() == "ValidatingAdmissionPolicy" && bound[name] {
			all[name[strings.LastIndex(name, "-")+1:]] = only[admissionregistrationv1.ValidatingAdmissionPolicy](t, rendered{object}, object.GetKind())
		}
	}
	return all
}

// pillion lint -f renders the templates as the chart does, without Helm, from the library's own files. Equal hashes
// are equal templates.
func TestLintChecksTheTemplatesThatTheChartRendersOfAFileOfValues(t *testing.T) {
	t.Parallel()
	values := inFile(t, "values.yaml", strings.Replace(lintValues, "LIBRARY", strings.Join(charts.Names(), ", "), 1))
	rendered := must(t, "", "helm", "template", "x", checkout.Chart(), "-f", values, "--show-only", "templates/sidecartemplates.yaml")
	installed := inFile(t, "installed.yaml", "cluster: east\nglobal: {imageRegistry: registry.example.com, imagePullSecrets: [pull]}\n")
	hashes := regexp.MustCompile(`template (\S+): ok \(hash (\w+)\)`)
	want := hashes.FindAllString(must(t, rendered, "pillion", "lint", "-", "--values", installed), -1)
	got := hashes.FindAllString(must(t, "", "pillion", "lint", "-f", values), -1)
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != len(charts.Names())+1 || !slices.Equal(want, got) {
		t.Errorf("lint -f: %v\nof the chart's objects: %v", got, want)
	}
}
