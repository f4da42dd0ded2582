package store

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Source is a place that templates come from.
type Source interface {
	// Name is how messages call it, as in "directory /etc/pillion/templates".
	Name() string
	// Run reports what the source has, and again whenever that changes, until ctx
	// ends. It does not give up: what goes wrong is reported, and tried again.
	// Reports come one at a time.
	Run(ctx context.Context, report func(Report))
}

// Cached is a source that keeps a cache of the cluster's objects.
type Cached interface {
	// State tells how current the cache is.
	State() follow.State
}

// Report is what a source has at one moment.
type Report struct {
	// Units are all its texts, in a fixed order. Nil beside an Err says that the source
	// could not be read: what it last had stays in force.
	Units []Unit
	// Mirrors are the cluster's objects with the label [templates.MirrorLabel]. They are no
	// templates. Nil where the cluster's objects have not been listed.
	Mirrors []MirrorObject
	// Err says what of the source does not work.
	Err error
	// Note says in words what is unusual and no error, such as a missing CRD.
	Note string
}

// Unit is a file, or an object of the cluster.
type Unit struct {
	// Source names it in errors: a file's path, or SidecarTemplate/NAME. No two
	// units of all sources have the same.
	Source string
	// Data is one or more manifests, as YAML or JSON.
	Data []byte
	// Err says why the unit could not be read; Data does not count then.
	Err error
	// Object is the object of the cluster that the unit is, or nil.
	Object *Object
	// From is the kind of place that the unit comes from, [FromLibrary] or [FromValues], where
	// the cluster is to have mirrors of its templates. Empty for everything else.
	From string
}

// The kinds of places that templates come from, as the status of their objects names them.
const (
	// FromLibrary: the library that is a part of the program.
	FromLibrary = "library"
	// FromValues: a file, in a cluster of the installer's values.
	FromValues = "values"
	// FromCluster: an object of the cluster.
	FromCluster = "cluster"
)

// Object is what is known of a SidecarTemplate in the cluster besides its spec.
type Object struct {
	Name            string
	UID             types.UID
	Created         metav1.Time
	Generation      int64
	ResourceVersion string
	// Status is what the API server has.
	Status v1alpha1.SidecarTemplateStatus
}

// MirrorObject is what is known of a mirror.
type MirrorObject struct {
	Object
	// Digest stands for all that Pillion writes of a mirror but its status.
	Digest string
	// Going says that the object is being deleted.
	Going bool
}

// Verdict says whether one object of the cluster is in force.
type Verdict struct {
	Object Object
	// From is where the template in force comes from: [FromLibrary], [FromValues] or
	// [FromCluster].
	From string
	// Hash is the template's, empty if it did not compile.
	Hash string
	// Reason is [Compiled] or why the object is not in force; Message says so in
	// words.
	Reason, Message string
	// Share is the percentage of a canary, nil for other templates.
	Share *int32
	// Template is what the object compiles to. It is nil if it does not, and for a mirror.
	Template *templates.Template
	// namespaces is in how many namespaces the template is in force, -1 if it is not known.
	// [StatusWriter] fills it in.
	namespaces int64
	// acceptance is what API servers say now of the pods that get the template, nil if nobody asked.
	acceptance *metav1.Condition
}

// The reasons of the condition Ready.
const (
	// Compiled: the object's newest spec is in force.
	Compiled = "Compiled"
	// CompileFailed: the spec cannot be used; the message says why.
	CompileFailed = "CompileFailed"
	// NameTaken: a file or a library template has the name, and counts.
	NameTaken = "NameTaken"
	// CanaryUnusable: the template is a canary that compiles alone, and not in place of the
	// stable template, or there is none.
	CanaryUnusable = "CanaryUnusable"
	// SourceGone: the file is gone, and namespaces name the template, so its last version
	// stays in force. Only of a mirror.
	SourceGone = "SourceGone"
)

// The reasons of the condition Accepted.
const (
	// Valid: API servers accept a sample pod that gets the template.
	Valid = "Valid"
	// Invalid: they call every sample pod invalid.
	Invalid = "Invalid"
	// NotAsked: no API server is asked about this template.
	NotAsked = "NotAsked"
	// NoAnswer: an API server did not say whether sample pods are valid. It is asked again.
	NoAnswer = "NoAnswer"
)

// inForce is the message of Compiled.
const inForce = "The template is in force."
