package manifests

import (
	"io"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
)

// Session decides about the pods of documents.
type Session struct {
	*inspect.Session
	// File has the documents. It is empty where they are the items of a ResourceList. A mistake in such an item
	// is a note about it, and the other items go on.
	File      string
	Documents []workload.Document
}

// Session returns a session for documents of the file, by the flags alone.
func (o *Options) Session(stdin io.Reader, file string, documents []workload.Document) (*Session, error) {
	set, err := o.Set(stdin)
	if err != nil {
		return nil, err
	}
	ns, err := o.Namespaces(stdin)
	if err != nil {
		return nil, err
	}
	pipeline := o.At(injector.NewPipeline(injector.Config{ExcludedNamespaces: settings.DefaultExcluded(), Explain: "pillion explain -f " + file + " with the same flags"}))
	return &Session{File: file, Documents: documents, Session: &inspect.Session{
		Compare:   drift.Comparer{Pipeline: pipeline, Registration: entries.Registration{All: true, Excluded: settings.DefaultExcluded()}},
		Templates: set, Namespaces: ns,
	}}, nil
}
