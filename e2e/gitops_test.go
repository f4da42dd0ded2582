package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestHelmTemplateWithoutAClusterGivesWhatIsInstalled(t *testing.T) {
	t.Parallel()
	template := exec.CommandContext(t.Context(), shared.Tool("helm"), append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "--no-hooks"}, installed...)...)
	template.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + t.TempDir() + "/none"}
	out, err := template.Output()
	expectNoError(t, err)
	manifests := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	if got, want := strings.TrimSpace(string(out)), strings.TrimSpace(manifests); got != want {
		t.Errorf("helm template without a cluster gives\n%s\nand helm install made\n%s", got, want)
	}
}
