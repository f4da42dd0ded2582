package live

import "context"

// Source is a place that templates come from.
type Source interface {
	// Name is how messages call it, as in "directory /etc/pillion/templates".
	Name() string
	// Run reports what the source has, and again whenever that changes, until ctx
	// ends. It does not give up: what goes wrong is reported, and tried again.
	// Reports come one at a time.
	Run(ctx context.Context, report func(Report))
}

// Report is what a source has at one moment.
type Report struct {
	// Units are all its texts, in a fixed order. They count only when Err is nil.
	Units []Unit
	// Err says why the source cannot be read. What it last had stays in force.
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
}
