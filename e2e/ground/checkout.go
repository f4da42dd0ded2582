package ground

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// A Checkout is the root folder of a clone of this repository.
type Checkout string

// FindCheckout returns the clone that the folder dir is in.
func FindCheckout(dir string) (Checkout, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for d := start; ; d = filepath.Dir(d) {
		mod, err := os.ReadFile(filepath.Join(d, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/pillion-dev/pillion\n")) {
			return Checkout(d), nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no checkout of github.com/pillion-dev/pillion in %s or above it", start)
		}
	}
}

// Path is a path inside the checkout.
func (c Checkout) Path(elem ...string) string {
	return filepath.Join(append([]string{string(c)}, elem...)...)
}

// Pillion is the path of the command line under test, which `make build` builds.
func (c Checkout) Pillion() string { return c.Path("bin", "pillion") }

// Webhook is the path of the server under test, which `make build` builds.
func (c Checkout) Webhook() string { return c.Path("bin", "pillion-webhook") }

// Chart is the folder of the Helm chart.
func (c Checkout) Chart() string { return c.Path("charts", "pillion") }

// cache is a path in the git-ignored folder for what can be made again.
func (c Checkout) cache(elem ...string) string {
	return c.Path(append([]string{".cache"}, elem...)...)
}
