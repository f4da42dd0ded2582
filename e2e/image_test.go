package e2e

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// imageContent is what is in an image.
type imageContent struct {
	config v1.Config
	files  []string // of all layers, sorted, without folders
}

// readImage reads an OCI archive (a tar of an OCI image layout) with one image.
func readImage(t *testing.T, archive string) imageContent {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	eachFile(t, file, func(name string, content io.Reader) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("an index (%v) with %d images, want 1", err, len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content := imageContent{config: config.Config}
	for _, layer := range layers {
		reader, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		eachFile(t, reader, func(name string, _ io.Reader) { content.files = append(content.files, name) })
		reader.Close()
	}
	slices.Sort(content.files)
	return content
}

// eachFile calls visit for every file of a tar archive.
func eachFile(t *testing.T, archive io.Reader, visit func(name string, content io.Reader)) {
	t.Helper()
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			visit(header.Name, files)
		}
	}
}
