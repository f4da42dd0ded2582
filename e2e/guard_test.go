package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// misspelt is a spec with one mistake, at spec.inject.spec.initContainers[0].
var misspelt = strings.Replace(sidecarSpec, "restartPolicy: Always", "restartPolice: Always", 1)

// object reads a SidecarTemplate from the cluster.
func (m manifest) object(t *testing.T) v1alpha1.SidecarTemplate {
	t.Helper()
	var object v1alpha1.SidecarTemplate
	if err := json.Unmarshal([]byte(must(t, "", "kubectl", "get", "sidecartemplate", m.name, "-o", "json")), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestABadTemplateIsRefusedAtKubectlApplyWithLintsOwnWords(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("bad"), spec: misspelt}
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte(m.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	lint, _, _ := run(t, "", "pillion", "lint", file)
	i := strings.Index(lint, "template "+m.name+": spec.inject.spec.initContainers[0].restartPolice: ")
	if i < 0 {
		t.Fatalf("lint says\n%s", lint)
	}
	want, _, _ := strings.Cut(lint[i:], " [compile]")
	for _, args := range [][]string{{"apply", "-f", "-"}, {"apply", "--dry-run=server", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
		_, stderr, err := run(t, m.yaml(), "kubectl", args...)
		if err == nil || !strings.Contains(stderr, want) || !strings.Contains(stderr, "(TemplateInvalid)") {
			t.Errorf("kubectl %s: %v\n%s\nwant it to say %s", strings.Join(args, " "), err, stderr, want)
		}
	}
}

func TestATemplateWhosePodsTheAPIServerRefusesIsRefusedAtKubectlApply(t *testing.T) {
	t.Parallel()
	name := unique("bad")
	bad := manifest{name: name, spec: "\ninject: {spec: {initContainers: [{name: audit_sidecar, image: 'a:1', restartPolicy: Always}]}}"}
	_, stderr, err := run(t, bad.yaml(), "kubectl", "apply", "-f", "-")
	if want := "template " + name + ": spec.inject.spec.initContainers[0]: the API server would refuse each pod that gets this: spec.initContainers[audit_sidecar].name: "; err == nil || !strings.Contains(stderr, want) || !strings.Contains(stderr, "(TemplateInvalid)") {
		t.Errorf("%v\n%s\nwant it to say %s", err, stderr, want)
	}
	mount := manifest{name: name, spec: "\ninject: {spec: {initContainers: [{name: audit, image: 'a:1', restartPolicy: Always, volumeMounts: [{name: data, mountPath: /data}]}]}}"}
	_, stderr, err = run(t, mount.yaml(), "kubectl", "apply", "--dry-run=server", "-f", "-")
	if want := `spec.initContainers[audit].volumeMounts[/data].name: Not found: "data"; declare it in spec.inject.spec.volumes`; err == nil || !strings.Contains(stderr, want) {
		t.Errorf("%v\n%s\nwant it to say %s", err, stderr, want)
	}
	// Pods bring the volume along, and others do not get the template.
	asked := manifest{name: name, spec: "\nvalidations: [{name: data, expression: \"pod.spec.?volumes.orValue([]).exists(v, v.name == 'data')\", message: no volume data}]" + mount.spec}
	if _, stderr, err = run(t, asked.yaml(), "kubectl", "apply", "--dry-run=server", "-f", "-"); err != nil || strings.Contains(stderr, "Not found") {
		t.Errorf("%v\n%s", err, stderr)
	}
}

func TestLintSaysWhatALoweredMaximumWouldBreak(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	n := newNamespace(t, asking(m.name), nil)
	must(t, strings.NewReplacer("KEY", m.name+".pillion.dev/memory").Replace(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}, annotations: {KEY: 128Mi}}, spec: {containers: [{name: app, image: "a:1"}]}}}}`),
		"kubectl", "-n", n.name, "apply", "-f", "-")
	file := filepath.Join(t.TempDir(), "lowered.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(m.yaml(), "maximum: 128Mi", "maximum: 64Mi", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, func() error {
		out, stderr, err := run(t, "", "pillion", "lint", file, "--cluster", "--pillion-namespace", ground.Namespace)
		want := `annotation ` + m.name + `.pillion.dev/memory on the pod has the value "128Mi": want a quantity such as 64Mi or 100m, at most 64Mi (BadParameter): ` + n.name + "/deployment/web (1 running)"
		if err == nil || !strings.Contains(out, want) {
			return fmt.Errorf("%w\n%s%s\nwant %s", err, out, stderr, want)
		}
		return nil
	})
}

func TestTheSchemaCatchesMistakesWithoutTheGuard(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct{ spec, says string }{
		"an unknown field":               {"\nordr: 1" + sidecarSpec, "unknown field"},
		"an unknown policy":              {"\nonError: Ignore" + sidecarSpec, "supported values"},
		"required without match":         {"\nrequired: true" + sidecarSpec, "required needs match"},
		"verify without required":        {"\nverify: {images: [a]}" + sidecarSpec, "verify is only for required templates"},
		"required and skipped":           {"\nrequired: true\nmatch: {}\nonError: Skip" + sidecarSpec, "cannot have onError: Skip"},
		"a pattern for a number":         {"\nparameters: [{name: a, type: integer, pattern: x}]\ninject: {}", "pattern is only for the types string and image"},
		"a parameter of no type":         {"\nparameters: [{name: a}]\ninject: {}", "spec.parameters[0].type"},
		"a parameter in another case":    {"\nparameters: [{name: log-level, type: string}]\ninject: {}", "spec.parameters[0].name"},
		"a name that is no DNS label":    {sidecarSpec, "must be a DNS label"},
		"two parameters of the one name": {"\nparameters: [{name: a, type: string}, {name: a, type: string}]\ninject: {}", "Duplicate value"},
	} {
		m := manifest{name: unique("bad"), spec: c.spec}
		if strings.Contains(why, "DNS label") {
			m.name += ".dotted"
		}
		if _, stderr, err := run(t, m.yaml(), "kubectl", "apply", "--validate=strict", "-f", "-"); err == nil || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "admission webhook") {
			t.Errorf("%s: %v\n%s", why, err, stderr)
		}
	}
}

func TestATemplateThatANamespaceNamesIsDeletedOnlyWhenAnnotated(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	n := newNamespace(t, asking(m.name), nil)
	eventually(t, inForce, func() error {
		_, stderr, err := run(t, "", "kubectl", "delete", "sidecartemplate", m.name, "--dry-run=server")
		if err == nil || !strings.Contains(stderr, n.name) || !strings.Contains(stderr, "(TemplateInUse)") {
			return fmt.Errorf("the deletion: %v\n%s", err, stderr)
		}
		return nil
	})
	if _, _, err := run(t, "", "kubectl", "delete", "sidecartemplate", m.name); err == nil {
		t.Fatal("it is deleted while a namespace names it")
	}
	must(t, "", "kubectl", "annotate", "sidecartemplate", m.name, "pillion.dev/allow-delete=true")
	must(t, "", "kubectl", "delete", "sidecartemplate", m.name)
}

func TestTheStatusTellsWhetherATemplateIsInForce(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	served := m.waitServed(t)
	var object v1alpha1.SidecarTemplate
	eventually(t, inForce, func() error {
		object = m.object(t)
		if ready := meta.FindStatusCondition(object.Status.Conditions, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != "Compiled" || object.Status.ObservedGeneration != object.Generation {
			return fmt.Errorf("the status is %s", pretty(object.Status))
		}
		return nil
	})
	n := newNamespace(t, asking(m.name), nil)
	pod := n.mustCreate(t, newPod("web", nil))
	if len(object.Status.Hash) != 16 || !strings.Contains(pod.Annotations[statusAnnotation], object.Status.Hash) {
		t.Errorf("the status has the hash %q, the pod %s", object.Status.Hash, pod.Annotations[statusAnnotation])
	}
	table := must(t, "", "kubectl", "get", "sidecartemplate", m.name)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME READY DEFAULT ORDER NAMESPACES SOURCE HASH AGE" {
		t.Errorf("kubectl get shows the columns %s", got)
	}
	if fields := strings.Fields(lines[1]); len(fields) != 8 || !slices.Equal(slices.Delete(slices.Clone(fields[1:7]), 3, 4), []string{"True", "false", "0", "cluster", object.Status.Hash}) {
		t.Errorf("kubectl get shows\n%s", table)
	}
	t.Attr("kubectl-apply-of-a-template-to-served", served.Round(time.Millisecond).String())
}

func TestExplainTellsAnAuthorAboutParameters(t *testing.T) {
	t.Parallel()
	text := strings.Join(strings.Fields(must(t, "", "kubectl", "explain", "sidecartemplate.spec.parameters")), " ")
	for _, want := range []string{"What teams may set by annotation", "params.NAME", "name <string> -required-", "type <string> -required-", "setBy <[]string>", "lowerCamelCase", "comma separated"} {
		if !strings.Contains(text, want) {
			t.Errorf("kubectl explain lacks %q:\n%s", want, text)
		}
	}
}

// Not in parallel: it starts more replicas.
func TestReplicasWriteOneStatusForEachChange(t *testing.T) {
	backToOne(t)
	scale(t, 3)
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	reported := func() error {
		if o := m.object(t); o.Status.ObservedGeneration != o.Generation {
			return fmt.Errorf("generation %d, and the status is of %d", o.Generation, o.Status.ObservedGeneration)
		}
		return nil
	}
	eventually(t, soon, reported)
	const changes = 5
	for i := range changes {
		must(t, fmt.Sprintf(`{"spec": {"order": %d}}`, i+1), "kubectl", "patch", "sidecartemplate", m.name, "--type=merge", "--patch-file=/dev/stdin")
		eventually(t, soon, reported)
	}
	time.Sleep(time.Second)
	writes, refused := statusWrites(t, m.name)
	if writes != changes+1 {
		t.Errorf("%d writes of the status (%d more were too late) by 3 replicas, for %d versions", writes, refused, changes+1)
	}
	t.Attr("status-writes", fmt.Sprintf("%d for %d versions, by 3 replicas; %d too late", writes, changes+1, refused))
}

// Not in parallel: it takes the guard away from the others.
func TestABadTemplateNeverReplacesAGoodOne(t *testing.T) {
	m := manifest{name: unique("side"), spec: sidecarSpec}
	m.apply(t)
	m.waitServed(t)
	var good string
	eventually(t, soon, func() error {
		if good = m.object(t).Status.Hash; good == "" {
			return errors.New("the status has no hash yet")
		}
		return nil
	})
	withoutGuard(t, func() {
		must(t, strings.Replace(m.yaml(), "${params.logLevel}", "${params.nosuch}", 1), "kubectl", "apply", "-f", "-")
	})
	eventually(t, soon, func() error {
		return metric(shared.Replicas(ground.Namespace)[0], `pillion_template_info{good="false",`, `template="`+m.name+`"`)
	})
	n := newNamespace(t, asking(m.name), nil)
	if got := containerNames(n.mustCreate(t, newPod("web", nil))); got != m.name+" app" {
		t.Errorf("containers %s, want the good version's sidecar", got)
	}
	eventually(t, soon, func() error {
		o := m.object(t)
		ready := meta.FindStatusCondition(o.Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "CompileFailed" || !strings.Contains(ready.Message, "params.>>>nosuch") || o.Status.Hash != good {
			return fmt.Errorf("the status is %s; want the mistake, and the hash %s of the version in force", pretty(o.Status), good)
		}
		return nil
	})
}

// Not in parallel: it takes the guard away from the others.
func TestATemplateOfUnknownShapeIsBrokenAndAffectsNothingElse(t *testing.T) {
	good := newTemplate(t)
	n := newNamespace(t, nil, nil)
	bad := manifest{name: unique("bad"), spec: misspelt}
	withoutGuard(t, func() { bad.apply(t) })
	eventually(t, soon, func() error {
		_, err := n.preview(t, newPod("web", asking(bad.name)))
		if err == nil || !strings.Contains(err.Error(), "TemplateBroken") || !strings.Contains(err.Error(), "restartPolice") {
			return fmt.Errorf("a pod that asks for a broken template gets: %v", err)
		}
		return nil
	})
	pod, err := n.preview(t, newPod("web", asking(good)))
	if err != nil || sidecar(pod, good) == nil {
		t.Errorf("beside a broken template, a good one gives: %v", err)
	}
}

// withoutGuard does something while API servers do not ask the guard, as when Pillion
// was down.
func withoutGuard(t *testing.T, do func()) {
	t.Helper()
	set := func(resources string) {
		must(t, `[{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["`+resources+`"]}]`,
			"kubectl", "patch", "validatingwebhookconfiguration", configuration, "--type=json", "--patch-file=/dev/stdin")
	}
	probe := manifest{name: unique("probe"), spec: misspelt}
	asked := func(want bool) {
		eventually(t, soon, func() error {
			_, _, err := run(t, probe.yaml(), "kubectl", "apply", "--dry-run=server", "-f", "-")
			if (err != nil) != want {
				return fmt.Errorf("whether the guard is asked is %t: %v", !want, err)
			}
			return nil
		})
	}
	set("nothing")
	defer func() {
		set("sidecartemplates")
		asked(true)
	}()
	asked(false)
	do()
}
