package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// The program is emulated, and all else of the control plane is not.
func TestTheProgramForArm64InjectsPods(t *testing.T) {
	t.Parallel()
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skipf("%v: Debian's package qemu-user-static has it", err)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", string(checkout), "-ldflags=-s -w", "-o", filepath.Join(dir, "pillion-arm64"), "./cmd/pillion")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building Pillion for arm64: %v\n%s", err, said)
	}
	program := filepath.Join(dir, "pillion")
	expectNoError(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s-arm64 \"$@\"\n", emulator, program), 0o700))
	g := newCertsGround(t)
	g.UsePillion(program)
	g.install(t, false)
	expectNoError(t, g.Scale(t.Context(), ground.Namespace, 1))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: asking("fluent-bit")}}
	if _, err := g.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx:1.29"}}}}
		pod, err := g.client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && sidecar(pod, "fluent-bit") == nil {
			err = fmt.Errorf("containers %s, want the sidecar", containerNames(pod))
		}
		return err
	})
}
