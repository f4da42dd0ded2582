package ground

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// An ImageReference is the name of an image: REGISTRY/PATH:TAG.
type ImageReference struct{ Name, Tag string }

// Released are the repositories of the image and the chart of a release that a test installs on a
// node: the node has the image of the checkout under the chart's own name.
var Released = []string{"released/pillion", "released/charts/pillion"}

// String implements fmt.Stringer.
func (r ImageReference) String() string { return r.Name + ":" + r.Tag }

// Repository is the name without its registry.
func (r ImageReference) Repository() string {
	_, path, _ := strings.Cut(r.Name, "/")
	return path
}

// Image is the one that the chart asks for with its own values.
func (c Checkout) Image() (ImageReference, error) {
	var chart struct{ AppVersion string }
	var values struct{ Image struct{ Repository string } }
	for file, into := range map[string]any{"Chart.yaml": &chart, "values.yaml": &values} {
		data, err := os.ReadFile(filepath.Join(c.Chart(), file))
		if err != nil {
			return ImageReference{}, err
		}
		if err := yaml.Unmarshal(data, into); err != nil {
			return ImageReference{}, fmt.Errorf("%s: %w", filepath.Join(c.Chart(), file), err)
		}
	}
	return ImageReference{Name: values.Image.Repository, Tag: chart.AppVersion}, nil
}

// buildImage has .ci/image build Pillion's image, and push it to destination, such as "oci:FOLDER" or
// "docker://HOST/NAME:TAG". What it needs for that stands in the folder scratch, which is removed. It
// returns the digest of the image's manifest.
func buildImage(ctx context.Context, c Checkout, scratch, destination string) (digest string, err error) {
	cmd := exec.CommandContext(ctx, c.Path(".ci", "image"), scratch, destination)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building the image: %w\n%s", err, &said)
	}
	return strings.TrimSpace(string(out)), nil
}
