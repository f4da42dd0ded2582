package namespaces

import (
	"maps"
	"math"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pillionlabels "github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
)

// cached is what the cache keeps of a namespace. Large clusters have ten thousand
// namespaces, so the labels and annotations are one text, as Kubernetes' protobuf has them: in maps
// they take twice as much memory.
type cached struct {
	name, version string
	uid           types.UID
	deleting      bool
	// byHand has the keys of the kept labels that somebody else owns. It is nearly always nil.
	byHand []string
	// unowned reports whether nobody is known to own the kept labels.
	unowned bool
	// metadata has the labels and the annotations.
	metadata []byte
	// part is what metadata has of a large namespace, nil if that is all.
	part *part
}

// part is a part of a namespace's metadata. Pillion's own labels are in each part.
type part struct {
	// reads are the templates' keys that the part was made for. It has the labels that
	// selectors name.
	reads *templates.NamespaceReads
	// bare: of all else the part has no more than what the namespace asks for. A part that is
	// not bare has the labels and annotations that expressions name, and all annotations that
	// set parameters.
	bare bool
}

// serves reports whether a part has all that templates which read these keys need for a pod. Nil
// stands for all keys.
func (p *part) serves(reads *templates.NamespaceReads) bool {
	return p == nil || !p.bare && reads != nil && !reads.Whole() && reads.Within(p.reads)
}

// mostKept is how many bytes the cache keeps of the metadata of a namespace, but for the labels
// that selectors name. Few namespaces have as much: what templates need of larger ones and is
// not kept is read where it is needed.
const mostKept = 4 << 10

// keeping decides what the cache keeps of each namespace.
type keeping struct {
	prefix string
	reads  func() *templates.NamespaceReads

	mu sync.Mutex
	// left is how many bytes may be kept besides those of bare parts, and sizes has what is
	// kept.
	left  int64
	sizes map[string]int64
}

// transform makes a cached namespace of what the API server sent. It is a
// [cache.TransformFunc].
func (k *keeping) transform(object any) (any, error) {
	if ns, ok := object.(*metav1.PartialObjectMetadata); ok {
		return k.keep(ns), nil
	}
	return object, nil
}

func (k *keeping) keep(ns *metav1.PartialObjectMetadata) *cached {
	owned := []string{templates.InjectionLabel(k.prefix)}
	c := &cached{
		name: ns.Name, version: ns.ResourceVersion, uid: ns.UID, deleting: ns.DeletionTimestamp != nil,
		byHand: pillionlabels.ByHand(ns, owned), unowned: pillionlabels.Unowned(ns),
	}
	labels, annotations := ns.Labels, annotationsOf(ns)
	reads := k.reads()
	if !k.take(ns.Name, sizeOf(labels)+sizeOf(annotations)) {
		c.part = &part{reads: reads}
		labels, annotations = needed(k.prefix, reads, labels, annotations)
		if !k.take(ns.Name, sizeOf(labels)+sizeOf(annotations)) {
			c.part.bare = true
			labels, annotations = k.bare(reads, labels, annotations)
		}
	}
	c.metadata, _ = (&metav1.ObjectMeta{Labels: labels, Annotations: annotations}).Marshal() // of maps it does not fail
	return c
}

// needed returns of labels and annotations what the cache knows that somebody needs: those of
// Pillion, and those that templates name.
func needed(prefix string, reads *templates.NamespaceReads, labels, annotations map[string]string) (neededLabels, neededAnnotations map[string]string) {
	return where(labels, func(key string) bool { return ownLabel(prefix, key) || reads.Label(key) }),
		where(annotations, func(key string) bool {
			domain, _, _ := strings.Cut(key, "/")
			return domain == prefix || strings.HasSuffix(domain, "."+prefix) || reads.Annotation(key)
		})
}

// bare returns what a bare part has.
func (k *keeping) bare(reads *templates.NamespaceReads, labels, annotations map[string]string) (bareLabels, bareAnnotations map[string]string) {
	asks := templates.InjectKey(k.prefix)
	bareAnnotations = where(annotations, func(key string) bool { return key == asks })
	if value, ok := bareAnnotations[asks]; ok {
		bareAnnotations[asks] = pillionlabels.ShortAsk(value)
	}
	return where(labels, func(key string) bool { return ownLabel(k.prefix, key) || reads.Selected(key) }), bareAnnotations
}

func ownLabel(prefix, key string) bool {
	return key == templates.InjectionLabel(prefix) || key == templates.RequiredLabel(prefix)
}

// take says that so many bytes of a namespace are to be kept, instead of those that were. It
// reports false, and that none is kept, if they are too many.
func (k *keeping) take(name string, bytes int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left += k.sizes[name]
	delete(k.sizes, name)
	if bytes > mostKept || bytes > k.left {
		return false
	}
	k.left -= bytes
	k.sizes[name] = bytes
	return true
}

// gone says that a namespace is kept no longer.
func (k *keeping) gone(name string) { k.take(name, math.MaxInt64) }

func where(m map[string]string, keep func(key string) bool) map[string]string {
	found := map[string]string{}
	for key, value := range m {
		if keep(key) {
			found[key] = value
		}
	}
	return found
}

func sizeOf(m map[string]string) int64 {
	var size int64
	for key, value := range m {
		size += int64(len(key) + len(value))
	}
	return size
}

// annotationsOf returns the annotations that templates see: all but the one in which kubectl
// apply keeps the whole object once more, which is half of what a namespace takes.
func annotationsOf(ns *metav1.PartialObjectMetadata) map[string]string {
	annotations := maps.Clone(ns.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}

// GetObjectMeta implements [metav1.ObjectMetaAccessor], by which the cache finds the key and
// the version.
func (c *cached) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: c.name, ResourceVersion: c.version, UID: c.uid}
}

// GetObjectKind implements [runtime.Object]: lists have namespaces as the cache keeps them.
func (c *cached) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]. Nobody changes a cached namespace.
func (c *cached) DeepCopyObject() runtime.Object { return c }

// namespace returns the namespace as templates see it.
func (c *cached) namespace() templates.Namespace {
	var m metav1.ObjectMeta
	c.unpack(&m)
	return templates.Namespace{Name: c.name, Labels: m.Labels, Annotations: m.Annotations}
}

// unpack adds the labels and the annotations to those of m.
func (c *cached) unpack(m *metav1.ObjectMeta) {
	_ = m.Unmarshal(c.metadata) // what Marshal wrote
}
