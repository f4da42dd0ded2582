package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

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

// BuildImage has buildah build the Dockerfile around the binary of `make build`, and push
// the image to destination, in the notation of containers-transports(5):
// "oci-archive:FILE:REFERENCE", "docker://HOST/NAME:TAG" (over plain HTTP where it must). What it
// needs for that stands in the folder scratch, which is removed. It returns the digest of
// the image's manifest.
//
// The same binary at the same commit gives the same digest: every time in the image is
// that of the commit.
func BuildImage(ctx context.Context, c Checkout, scratch, destination string) (digest string, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	policy := filepath.Join(scratch, "policy.json")
	if err := os.WriteFile(policy, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600); err != nil {
		return "", err
	}
	reference, err := c.Image()
	if err != nil {
		return "", err
	}
	revision, created, err := c.commit(ctx)
	if err != nil {
		return "", err
	}
	buildah := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "buildah", append([]string{
			"--storage-driver=vfs", "--root=" + filepath.Join(scratch, "root"), "--runroot=" + filepath.Join(scratch, "run"),
		}, args...)...)
		cmd.Dir = string(c)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch}
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("buildah %s: %w\n%s", args[0], err, said)
		}
		return nil
	}
	err = buildah("build", "--isolation=chroot", "--signature-policy="+policy, "--layers=false",
		"--timestamp="+strconv.FormatInt(created, 10),
		"--build-arg=VERSION="+reference.Tag, "--build-arg=REVISION="+revision,
		"--tag="+reference.String(), ".")
	if err != nil {
		return "", err
	}
	file := filepath.Join(scratch, "digest")
	err = buildah("push", "--signature-policy="+policy, "--tls-verify=false", "--format=oci", "--digestfile="+file, reference.String(), destination)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// commit is the checkout's commit and its time, in seconds since 1970. A folder that is
// no Git checkout has neither.
func (c Checkout) commit(ctx context.Context) (revision string, seconds int64, err error) {
	cmd := exec.CommandContext(ctx, "git", "log", "-1", "--format=%H %ct")
	cmd.Dir = string(c)
	out, err := cmd.Output()
	if err != nil {
		return "unknown", 0, nil
	}
	_, err = fmt.Sscan(string(out), &revision, &seconds)
	return revision, seconds, err
}
