// Package followtest has an API server of one resource, over HTTP, that can be told to fail.
// It is for tests. Its connections are in memory, so it may run in a bubble of synctest.
package followtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Server answers for namespaces as an API server does: gets, lists page by page, watches
// from a version, with bookmarks, and no streamed lists.
type Server struct {
	*httptest.Server
	pipes pipes
	// Away has connections refused, and those that stand end, as if there were no API
	// server. Refused counts the connections that were refused.
	Away    atomic.Bool
	Refused atomic.Int64
	// Silent has watches begin and bring nothing. Those that stand fall silent, too.
	Silent atomic.Bool
	// deaf is the number of the last watch that brings nothing any more.
	deaf atomic.Int64
	// NoLists has lists fail, but those of a single object.
	NoLists atomic.Bool
	// Slow delays every get. It is a [time.Duration].
	Slow atomic.Int64
	// Gets, Lists and Watches count requests. Consistent counts the lists without a version.
	Gets, Lists, Consistent, Watches atomic.Int64
	begun, listed, standing          atomic.Int64

	mu      sync.Mutex
	version int
	objects map[string]*metav1.PartialObjectMetadata
	history []event
}

type event struct {
	kind    watch.EventType
	version int
	object  *metav1.PartialObjectMetadata
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{version: 100, objects: map[string]*metav1.PartialObjectMetadata{}, pipes: newPipes()}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	s.Listener = s.pipes
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// pipes is a listener in memory.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	close   func()
}

func newPipes() pipes {
	closed := make(chan struct{})
	return pipes{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

func (p pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { p.close(); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// Config returns how a client reaches the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, QPS: -1, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if s.Away.Load() {
			s.Refused.Add(1)
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return s.pipes.dial(ctx)
	}}
}

// Leave ends all connections, and refuses new ones until Away is false.
func (s *Server) Leave() {
	s.Away.Store(true)
	s.CloseClientConnections()
}

// Standing returns how many watches stand.
func (s *Server) Standing() int64 { return s.standing.Load() }

// Deafen has the watches that stand bring nothing any more.
func (s *Server) Deafen() { s.deaf.Store(s.begun.Load()) }

// ListedObjects returns how many objects lists have had in all.
func (s *Server) ListedObjects() int64 { return s.listed.Load() }

// Put makes or changes a namespace, and returns its version.
func (s *Server) Put(name string, labels, annotations map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Modified
	if s.objects[name] == nil {
		kind = watch.Added
	}
	s.version++
	s.put(kind, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(s.version), Labels: labels, Annotations: annotations},
	})
	return strconv.Itoa(s.version)
}

// Delete deletes a namespace.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object := *s.objects[name]
	object.ResourceVersion = strconv.Itoa(s.version)
	delete(s.objects, name)
	s.history = append(s.history, event{watch.Deleted, s.version, &object})
}

// Elsewhere has another resource change: the newest version is greater, and no namespace
// has it.
func (s *Server) Elsewhere() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
}

func (s *Server) put(kind watch.EventType, object *metav1.PartialObjectMetadata) {
	s.objects[object.Name] = object
	s.history = append(s.history, event{kind, s.version, object})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.Away.Load() {
		panic(http.ErrAbortHandler)
	}
	name, one := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	switch {
	case one:
		s.get(w, name)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	default:
		s.list(w, r)
	}
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message})
}

func (s *Server) get(w http.ResponseWriter, name string) {
	s.Gets.Add(1)
	time.Sleep(time.Duration(s.Slow.Load()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, ok := s.objects[name]; ok {
		answer(w, http.StatusOK, object)
		return
	}
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("namespaces %q not found", name))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.Lists.Add(1)
	if r.URL.Query().Get("resourceVersion") == "" {
		s.Consistent.Add(1)
	}
	if s.NoLists.Load() && r.URL.Query().Get("limit") != "1" {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no lists")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.objects {
		if name > r.URL.Query().Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && len(names) > limit {
		names = names[:limit]
		list.Continue = names[limit-1]
	}
	for _, name := range names {
		list.Items = append(list.Items, *s.objects[name])
	}
	s.listed.Add(int64(len(list.Items)))
	answer(w, http.StatusOK, list)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	s.Watches.Add(1)
	number := s.begun.Add(1)
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		return
	}
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	began := time.Now()
	bookmark := began.Add(time.Duration(seconds)*time.Second - 2*time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	s.standing.Add(1)
	defer s.standing.Add(-1)
	for range time.Tick(5 * time.Millisecond) {
		switch {
		case r.Context().Err() != nil:
			return
		case s.Away.Load():
			panic(http.ErrAbortHandler)
		case time.Since(began) > time.Duration(seconds)*time.Second:
			return
		case s.Silent.Load() || number <= s.deaf.Load():
			continue
		}
		s.mu.Lock()
		var news []event
		for _, e := range s.history {
			if e.version > from {
				news = append(news, e)
				from = e.version
			}
		}
		if time.Now().After(bookmark) && s.version > from {
			from, bookmark = s.version, began.Add(time.Hour)
			news = append(news, event{watch.Bookmark, from, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(from)},
			}})
		}
		s.mu.Unlock()
		for _, e := range news {
			if json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object}) != nil {
				return
			}
		}
		if len(news) > 0 {
			_ = http.NewResponseController(w).Flush()
		}
	}
}
