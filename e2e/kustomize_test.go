package e2e

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kustomize builds a kustomization with functions, and returns what it prints.
func kustomize(t *testing.T, dir string) (out, errs string, err error) {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "kustomize").Output()
	if err != nil {
		t.Fatalf("building kustomize: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), "build", "--enable-alpha-plugins", "--enable-exec", dir)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = shared.Env(), &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func TestKustomizeInjectsIntoTheDeploymentOfTheExamples(t *testing.T) {
	t.Parallel()
	examples := checkout.Path("examples")
	out, errs, err := kustomize(t, examples)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	want := must(t, "", "pillion", "inject", "-f", filepath.Join(examples, "deployment.yaml"), "--namespace-file", filepath.Join(examples, "namespace.yaml"))
	_, built, _ := strings.Cut(out, "\n---\n")
	var got, wanted map[string]any
	expectNoError(t, errors.Join(yaml.Unmarshal([]byte(built), &got), yaml.Unmarshal([]byte(want), &wanted)))
	if len(got) == 0 || !reflect.DeepEqual(got, wanted) {
		t.Errorf("kustomize gives\n%s\nand pillion inject\n%s", built, want)
	}
}
