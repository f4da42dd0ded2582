package ground

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// certManagerPrograms is cert-manager's own controllers with cainjector, as one program.
var certManagerPrograms = programs{
	title:    "cert-manager",
	dir:      "certmanager/v1.21",
	versions: certManagerModule,
	packages: []string{"./cert-manager"},
}

const certManagerModule = "github.com/cert-manager/cert-manager"

// certManagerLimit is how long its custom resources get to be served.
const certManagerLimit = 60 * time.Second

// StartCertManager builds cert-manager's controllers if they are not built yet, applies
// the CRDs that come in its module, and starts it with an admin's rights. It ends with the
// ground.
func (g *ControlPlane) StartCertManager(ctx context.Context) error {
	ctx, done := g.untilClosed(ctx)
	defer done()
	dirs, err := build(ctx, g.checkout, []programs{certManagerPrograms}, g.out)
	if err != nil {
		return err
	}
	source, err := moduleFolder(ctx, g.checkout.Path("e2e", filepath.FromSlash(certManagerPrograms.dir)), certManagerModule)
	if err != nil {
		return fmt.Errorf("finding cert-manager's CRDs: %w", err)
	}
	if _, err := Run(ctx, g, "kubectl", "apply", "--server-side", "-f", filepath.Join(source, "deploy", "crds")); err != nil {
		return err
	}
	established, stop := context.WithTimeoutCause(ctx, certManagerLimit, fmt.Errorf("cert-manager's custom resources are not served after %s", certManagerLimit))
	defer stop()
	// A CRD that has no conditions yet has null for them, which kubectl takes for an error.
	err = poll(established, func(ctx context.Context) (bool, error) {
		_, err := Run(ctx, g, "kubectl", "wait", "--for=condition=Established", "--timeout="+certManagerLimit.String(),
			"crd/issuers.cert-manager.io", "crd/certificates.cert-manager.io", "crd/certificaterequests.cert-manager.io")
		return err == nil, err
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p, err := startProcess(g.fork, "cert-manager", filepath.Join(dirs[0], "cert-manager"), []string{g.Kubeconfig()}, g.Env(), g.Log("cert-manager"))
	if err == nil {
		g.programs = append(g.programs, p)
	}
	return err
}

// moduleFolder is where the module cache has the version of module that the module in dir
// requires.
func moduleFolder(ctx context.Context, dir, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w\n%s", module, err, out)
	}
	var downloaded struct{ Dir string }
	err = json.Unmarshal(out, &downloaded)
	return downloaded.Dir, err
}
