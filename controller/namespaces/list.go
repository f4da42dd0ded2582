package namespaces

import (
	"context"
	"encoding/json"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// mostListed is how many namespaces a page has at most. With their managed fields, namespaces can
// have 3 MB, and a page takes seconds then.
const mostListed = 50

// list answers a list request with namespaces as the cache keeps them. Of a page in transit no
// more than one namespace is in memory.
func (i *Informer) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	onlyVersion := o.Limit == 1 // the version of the list is all that is asked for
	if o.Limit == 0 || o.Limit > mostListed {
		o.Limit = mostListed
	}
	body, err := i.o.List(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it has been read, or is of no use
	list := &metainternalversion.List{}
	err = rawjson.List(body, func(text []byte) error { return json.Unmarshal(text, &list.ListMeta) }, func(text []byte) error {
		if onlyVersion {
			return nil
		}
		ns := &metav1.PartialObjectMetadata{}
		err := json.Unmarshal(text, ns)
		if err == nil {
			list.Items = append(list.Items, i.keeping.keep(ns))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading a list of namespaces: %w", err)
	}
	return list, nil
}
