package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The program is emulated.
func TestTheProgramForArm64InjectsPods(t *testing.T) {
	t.Parallel()
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skipf("%v: Debian's package qemu-user-static has it", err)
	}
	program := filepath.Join(t.TempDir(), "pillion-arm64")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", string(checkout), "-ldflags=-s -w", "-o", program, "./cmd/pillion")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building Pillion for arm64: %v\n%s", err, said)
	}
	inject := []string{"inject", "-f", checkout.Path("examples", "deployment.yaml"), "--namespace-file", checkout.Path("examples", "namespace.yaml")}
	out, err := exec.CommandContext(t.Context(), emulator, append([]string{program}, inject...)...).Output()
	if want := must(t, "", "pillion", inject...); err != nil || string(out) != want {
		t.Errorf("emulated it injects (%v)\n%s\nwant\n%s", err, out, want)
	}
}
