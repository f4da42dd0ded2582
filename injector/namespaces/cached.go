package namespaces

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/templates"
)

// cached is what the cache keeps of a namespace. Large clusters have ten thousand
// namespaces, so the labels and annotations are one text: in maps they take twice as much
// memory.
type cached struct {
	name, version string
	uid           types.UID
	deleting      bool
	// byHand has the keys of the kept labels that somebody else owns. It is nearly always nil.
	byHand []string
	// metadata has the labels and the annotations, as pack writes them.
	metadata string
}

// onlyNeeded returns the function that makes a cached namespace of what the API server sent.
// Owned are the labels of which it is noted whether somebody else owns them.
func onlyNeeded(owned []string) cache.TransformFunc {
	return func(object any) (any, error) {
		if ns, ok := object.(*metav1.PartialObjectMetadata); ok {
			return newCached(ns, owned), nil
		}
		return object, nil
	}
}

func newCached(ns *metav1.PartialObjectMetadata, owned []string) *cached {
	return &cached{
		name: ns.Name, version: ns.ResourceVersion, uid: ns.UID, deleting: ns.DeletionTimestamp != nil, byHand: kept.ByHand(ns, owned),
		metadata: string(pack(pack(nil, ns.Labels), annotationsOf(ns))),
	}
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

// namespace returns the namespace as templates see it.
func (c *cached) namespace() templates.Namespace {
	labels, rest := unpackNew(c.metadata)
	annotations, _ := unpackNew(rest)
	return templates.Namespace{Name: c.name, Labels: labels, Annotations: annotations}
}

// unpackInto replaces what two maps have by the labels and the annotations.
func (c *cached) unpackInto(labels, annotations map[string]string) {
	clear(labels)
	clear(annotations)
	unpack(annotations, unpack(labels, c.metadata))
}

// pack appends a map to a text: how many keys there are, and of each key and its value the
// length and the text.
func pack(to []byte, m map[string]string) []byte {
	to = binary.AppendUvarint(to, uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		to = append(binary.AppendUvarint(to, uint64(len(key))), key...)
		to = append(binary.AppendUvarint(to, uint64(len(m[key]))), m[key]...)
	}
	return to
}

// unpackNew returns the map at the begin of a text that pack wrote, nil if it is empty, and
// the rest of the text.
func unpackNew(text string) (m map[string]string, rest string) {
	n, rest := number(text)
	if n == 0 {
		return nil, rest
	}
	m = make(map[string]string, n)
	return m, unpack(m, text)
}

// unpack adds to a map the one at the begin of a text that pack wrote, and returns the rest
// of the text. The map shares the text.
func unpack(m map[string]string, text string) (rest string) {
	n, text := number(text)
	for range n {
		var length int
		length, text = number(text)
		key := text[:length]
		length, text = number(text[length:])
		m[key], text = text[:length], text[length:]
	}
	return text
}

// number reads what [binary.AppendUvarint] wrote.
func number(text string) (n int, rest string) {
	for shift := 0; ; shift += 7 {
		b := text[0]
		text = text[1:]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n, text
		}
	}
}
