package main

import (
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/store"
)

// mirrorsTemplates reports whether the cluster has mirrors of the templates that it has no
// objects of.
func (c serveConfig) mirrorsTemplates() bool { return c.ClusterTemplates && c.MirrorPolicy != "" }

// mirror makes what keeps the mirrors of templates, where the cluster is to have them.
func (r *replica) mirror() {
	if !r.c.mirrorsTemplates() {
		return
	}
	w := store.NewMirrorWriter(store.MirrorOptions{
		Client: dynamic.NewForConfigOrDie(r.config), Prefix: r.c.Prefix, Values: r.compile.Values, Policy: r.c.MirrorPolicy, Revision: r.c.MirrorRevision,
		Ready: r.mayWrite, Verdicts: func(v []store.Verdict) { r.status.Observe("mirrors", v) }, Logger: r.logger("mirrors"),
	})
	r.set.OnMirrors(w.Observe)
	r.run(r.leaving.until(w.Run))
}
