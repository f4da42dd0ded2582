package registry

import (
	"archive/tar"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func newRegistry(t *testing.T) (host string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "standin")
	if err := os.WriteFile(binary, []byte("a binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := New(binary, "pillion-dev/pillion")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestARepositoryOfOthersHasItsStandInUnderAnyTagAndDigest(t *testing.T) {
	host := newRegistry(t)
	first := pull(t, host+"/fluent/fluent-bit:4.1")
	second := pull(t, host+"/fluent/fluent-bit:latest")
	if first.digest != second.digest {
		t.Errorf("two tags have the digests %s and %s", first.digest, second.digest)
	}
	if byDigest := pull(t, host+"/fluent/fluent-bit@"+first.digest); byDigest.digest != first.digest {
		t.Errorf("the digest %s gives %s", first.digest, byDigest.digest)
	}
	if want := []string{"SOFTWARE=fluent-bit", "LISTEN=2020", "EXIT_ON="}; !slices.Equal(first.env, want) {
		t.Errorf("environment %q, want %q", first.env, want)
	}
	if first.files["standin"] != "a binary" {
		t.Errorf("files %q, want the binary at /standin", first.files)
	}
	if other := pull(t, host+"/somebody/else:1"); other.digest == first.digest {
		t.Error("other software has the same image")
	}
}

func TestAnOwnRepositoryServesWhatWasPushedAsItIsAndOnlyThat(t *testing.T) {
	host := newRegistry(t)
	image, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(host + "/pillion-dev/pillion:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}
	want, _ := image.Digest()
	pushed, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := pushed.Digest(); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	absent, _ := name.ParseReference(host + "/pillion-dev/pillion:2")
	if _, err := remote.Image(absent); err == nil {
		t.Error("a tag that was not pushed is served")
	}
	foreign, _ := name.ParseReference(host + "/library/nginx:1")
	if err := remote.Write(foreign, image); err == nil {
		t.Error("another repository could be pushed to")
	}
}

type pulled struct {
	digest string
	env    []string
	files  map[string]string
}

func pull(t *testing.T, text string) pulled {
	t.Helper()
	reference, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	p := pulled{digest: digest.String(), env: config.Config.Env, files: map[string]string{}}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		for files := tar.NewReader(content); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			p.files[header.Name] = string(data)
		}
	}
	return p
}
