package registry

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// A Registry keeps images in memory.
type Registry struct {
	store  http.Handler
	binary []byte // of the stand-in

	own []string // repositories without a stand-in

	mu       sync.Mutex
	standing map[string]bool // repositories whose stand-in is stored
}

// New makes a registry whose stand-ins run the static binary at path. The repositories
// own have none: what is pulled from them was pushed to them.
func New(binary string, own ...string) (*Registry, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return &Registry{
		store:    registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		binary:   data,
		own:      own,
		standing: map[string]bool{},
	}, nil
}

// request is what a path of the protocol is about.
var request = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := request.FindStringSubmatch(req.URL.Path)
	if parts == nil || slices.Contains(r.own, parts[1]) {
		r.store.ServeHTTP(w, req)
		return
	}
	repository, kind, reference := parts[1], parts[2], parts[3]
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		http.Error(w, "only "+strings.Join(r.own, ", ")+" can be pushed to", http.StatusMethodNotAllowed)
		return
	}
	if err := r.standIn(repository); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if kind == "manifests" && !strings.Contains(reference, ":") {
		req = req.Clone(req.Context())
		req.URL.Path = "/v2/" + repository + "/manifests/" + tag
	}
	r.store.ServeHTTP(w, req)
}

// tag is the one that stand-ins are stored under.
const tag = "standin"

// standIn stores the stand-in of the repository, unless an earlier call has.
func (r *Registry) standIn(repository string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.standing[repository] {
		return nil
	}
	image, err := r.image(repository)
	if err != nil {
		return fmt.Errorf("making the stand-in for %s: %w", repository, err)
	}
	reference, err := name.NewTag("store.invalid/"+repository+":"+tag, name.Insecure)
	if err != nil {
		return err
	}
	if err := remote.Write(reference, image, remote.WithTransport(within{r.store})); err != nil {
		return fmt.Errorf("storing the stand-in for %s: %w", repository, err)
	}
	r.standing[repository] = true
	return nil
}

// image is the stand-in for the software of a repository.
func (r *Registry) image(repository string) (v1.Image, error) {
	s := standIns[path.Base(repository)]
	paths := append([]string{"/standin"}, s.paths...)
	layer, err := r.layer(paths)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, v1.Config{
		Entrypoint: []string{"/standin"},
		User:       "65532:65532",
		Env: []string{
			"SOFTWARE=" + path.Base(repository),
			"LISTEN=" + s.listen,
			"EXIT_ON=" + s.exitOn,
		},
	})
}

// layer has the binary at the first path, and links to it at the others. Who unpacks it makes the folders.
func (r *Registry) layer(paths []string) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for i, p := range paths {
		header := &tar.Header{Name: strings.TrimPrefix(p, "/"), Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(r.binary))}
		if i > 0 {
			header.Typeflag, header.Size, header.Linkname = tar.TypeSymlink, 0, paths[0]
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if i == 0 {
			if _, err := w.Write(r.binary); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil
	})
}

// within is a transport to a handler of this program.
type within struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (t within) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	t.ServeHTTP(answer, request)
	response := answer.Result()
	response.Request = request
	return response, nil
}
