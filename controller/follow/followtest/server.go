// Package followtest has an API server of one resource, as a metadata client, that can be told to
// fail. It is for tests, and may run in a bubble of synctest.
package followtest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces").GroupResource()

// Server answers for namespaces as an API server does: gets, lists page by page, watches
// from a version, with a bookmark every minute, and no streamed lists. Make one with [New].
type Server struct {
	metadata.Getter
	// Away has calls refused, and watches that stand end, as if there were no API server.
	// Refused counts the calls that were refused.
	Away    atomic.Bool
	Refused atomic.Int64
	// deaf is the number of the last watch that brings nothing any more.
	deaf atomic.Int64
	// NoLists has lists fail.
	NoLists atomic.Bool
	// Slow delays every get. It is a [time.Duration].
	Slow atomic.Int64
	// Gets, Lists and Watches count requests. Consistent counts the lists without a version.
	Gets, Lists, Consistent, Watches atomic.Int64
	// Standing counts the watches that stand.
	Standing atomic.Int64

	mu      sync.Mutex
	version int
	objects map[string]*metav1.PartialObjectMetadata
	history []event
}

type event struct {
	watch.Event
	version int
}

// New returns a server without namespaces.
func New() *Server {
	return &Server{version: 100, objects: map[string]*metav1.PartialObjectMetadata{}}
}

// Resource implements [metadata.Interface]. Every resource is that of namespaces.
func (s *Server) Resource(schema.GroupVersionResource) metadata.Getter { return s }

// Deafen has the watches that stand bring nothing any more.
func (s *Server) Deafen() { s.deaf.Store(s.Watches.Load()) }

// Put makes or changes a namespace, and returns its version.
func (s *Server) Put(name string, labels, annotations map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Modified
	if s.objects[name] == nil {
		kind = watch.Added
	}
	s.objects[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
	return s.happened(kind, s.objects[name])
}

// Remove deletes a namespace.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[name].DeepCopy()
	delete(s.objects, name)
	s.happened(watch.Deleted, object)
}

// happened gives an object the next version, and watches the news of it.
func (s *Server) happened(kind watch.EventType, object *metav1.PartialObjectMetadata) string {
	s.version++
	object.ResourceVersion = strconv.Itoa(s.version)
	s.history = append(s.history, event{watch.Event{Type: kind, Object: object}, s.version})
	return object.ResourceVersion
}

// refused returns the error of a call while the server is away.
func (s *Server) refused() error {
	if !s.Away.Load() {
		return nil
	}
	s.Refused.Add(1)
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Get implements [metadata.ResourceInterface]. The answer is slow to arrive, and may be old by then.
func (s *Server) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	if err := s.refused(); err != nil {
		return nil, err
	}
	s.Gets.Add(1)
	s.mu.Lock()
	object, ok := s.objects[name]
	s.mu.Unlock()
	time.Sleep(time.Duration(s.Slow.Load()))
	if ok {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(namespaces, name)
}

// List implements [metadata.ResourceInterface].
func (s *Server) List(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if err := s.refused(); err != nil {
		return nil, err
	}
	s.Lists.Add(1)
	if o.ResourceVersion == "" {
		s.Consistent.Add(1)
	}
	if s.NoLists.Load() {
		return nil, apierrors.NewForbidden(namespaces, "", nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.objects {
		if name > o.Continue {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	if limit := int(o.Limit); limit > 0 && len(names) > limit {
		names = names[:limit]
		list.Continue = names[limit-1]
	}
	for _, name := range names {
		list.Items = append(list.Items, *s.objects[name].DeepCopy())
	}
	return list, nil
}

// Watch implements [metadata.ResourceInterface].
func (s *Server) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := s.refused(); err != nil {
		return nil, err
	}
	number := s.Watches.Add(1)
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	from, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	s.Standing.Add(1)
	go func() {
		defer s.Standing.Add(-1)
		defer close(events)
		end := time.Now().Add(time.Duration(*o.TimeoutSeconds) * time.Second)
		bookmark := nextBookmark(end)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.StopChan():
				return
			case <-tick.C:
			}
			if s.Away.Load() || time.Now().After(end) {
				return
			}
			for _, e := range s.since(number, from, time.Now().After(bookmark)) {
				if from = e.version; e.Type == watch.Bookmark {
					bookmark = nextBookmark(end)
				}
				select {
				case <-ctx.Done():
					return
				case <-w.StopChan():
					return
				case events <- e.Event:
				}
			}
		}
	}()
	return w, nil
}

// nextBookmark returns when an API server sends the next bookmark: in a minute, and two seconds before the watch ends.
func nextBookmark(end time.Time) time.Time {
	next, last := time.Now().Add(time.Minute), end.Add(-2*time.Second)
	if time.Now().Before(last) && last.Before(next) {
		return last
	}
	return next
}

// since returns what a watch brings of what happened after a version, and a bookmark if the newest
// version is beyond that.
func (s *Server) since(number int64, version int, bookmark bool) (news []event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Under the lock: a watch that was made to bring nothing brings nothing that happens afterwards.
	if number <= s.deaf.Load() {
		return nil
	}
	for _, e := range s.history {
		if e.version > version {
			e.Object, version = e.Object.DeepCopyObject(), e.version
			news = append(news, e)
		}
	}
	if bookmark {
		newest := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.version)}}
		news = append(news, event{watch.Event{Type: watch.Bookmark, Object: newest}, s.version})
	}
	return news
}
