package e2e

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// readImage reads an OCI image layout with one image. It returns the image's configuration, and the
// files of all layers, sorted, without folders.
func readImage(t *testing.T, dir string) (config v1.Config, files []string) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	expectNoError(t, err)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("an index (%v) with %d images, want 1", err, len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	expectNoError(t, err)
	file, err := image.ConfigFile()
	expectNoError(t, err)
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(files)
			return file.Config, files
		}
		expectNoError(t, err)
		if header.Typeflag == tar.TypeReg {
			files = append(files, header.Name)
		}
	}
}
