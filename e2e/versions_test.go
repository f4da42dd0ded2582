package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// The way of a template's kind to its next version, as docs/reference/versions.md has it: no conversion, and
// the storage version changes while Pillion runs.
func TestTemplatesOfASecondServedVersionAreInForce(t *testing.T) {
	t.Parallel()
	g := newOwnGround(t, ground.FromEnvironment())
	g.run(t, "helm", ground.InstallArgs(g, checkout.Chart(), "--set", "replicas=1")...)
	expectNoError(t, g.Rollout(t.Context(), ground.Namespace))
	apply := func(name, version string) {
		t.Helper()
		text := strings.Replace(manifest{name: name, spec: sidecarSpec}.yaml(), "v1alpha1", version, 1)
		_, _, err := ground.Exec(t.Context(), g, text, "kubectl", "apply", "-f", "-")
		expectNoError(t, err)
	}
	inForceAs := func(name string) {
		t.Helper()
		eventually(t, soon, func() error {
			pod, err := g.client.CoreV1().Pods("default").Create(t.Context(), newPod("web", asking(name)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && sidecar(pod, name) == nil {
				err = fmt.Errorf("a pod that asks for %s has the containers %s", name, containerNames(pod))
			}
			return err
		})
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			eventually(t, soon, func() error {
				out, err := ground.Run(t.Context(), g, "kubectl", "get", "sidecartemplates."+version+".pillion.dev", name, "-o", `jsonpath={.apiVersion} {.status.conditions[?(@.type=="Ready")].status}`)
				if err == nil && out != "pillion.dev/"+version+" True" {
					err = fmt.Errorf("%s reads as %q", name, out)
				}
				return err
			})
		}
	}
	apply("early", "v1alpha1")
	for _, storage := range []string{"v1alpha1", "v1beta1", "v1alpha1"} {
		g.serve(t, storage)
		inForceAs("early")
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			name := unique("t")
			apply(name, version)
			inForceAs(name)
		}
	}
}

// serve has the CRD serve v1beta1 beside v1alpha1, with the same schema, and store one of them.
func (g *certsGround) serve(t *testing.T, storage string) {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	expectNoError(t, json.Unmarshal([]byte(g.run(t, "kubectl", "get", "crd", "sidecartemplates.pillion.dev", "-o", "json")), &crd))
	var versions []apiextensionsv1.CustomResourceDefinitionVersion
	for _, name := range []string{"v1alpha1", "v1beta1"} {
		version := *crd.Spec.Versions[0].DeepCopy()
		version.Name, version.Storage = name, name == storage
		versions = append(versions, version)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
	expectNoError(t, err)
	g.run(t, "kubectl", "patch", "crd", "sidecartemplates.pillion.dev", "--type=merge", "-p", string(patch))
}
