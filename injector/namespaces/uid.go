package namespaces

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UID returns the UID of a namespace in the cache. It reads nothing live.
func (i *Informer) UID(name string) (types.UID, bool) {
	item, found, err := i.informer.GetStore().GetByKey(name)
	if err != nil || !found {
		return "", false
	}
	object, ok := item.(*metav1.PartialObjectMetadata)
	if !ok {
		return "", false
	}
	return object.UID, true
}
