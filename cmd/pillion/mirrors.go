package main

import (
	"context"
	"log/slog"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
)

// mirrorsTemplates reports whether the cluster has mirrors of the templates that it has no
// objects of.
func (c serveConfig) mirrorsTemplates() bool { return c.ClusterTemplates && c.MirrorPolicy != "" }

// mirrors returns what keeps the mirrors of templates until its context ends.
func (c serveConfig) mirrors(config *rest.Config, compile templates.Options, set *store.Templates, status *store.StatusWriter, ready func() error, log *slog.Logger) func(context.Context) error {
	if !c.mirrorsTemplates() {
		return func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	w := store.NewMirrorWriter(store.MirrorOptions{
		Client: dynamic.NewForConfigOrDie(config), Prefix: c.Prefix, Values: compile.Values, Policy: c.MirrorPolicy, Revision: c.MirrorRevision,
		Ready: ready, Verdicts: func(v []store.Verdict) { status.Observe("mirrors", v) }, Logger: log,
	})
	set.OnMirrors(w.Observe)
	return w.Run
}
