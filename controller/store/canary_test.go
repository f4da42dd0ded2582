package store_test

import (
	"log/slog"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// A stopped canary selects nobody until it is edited, and its status says why a canary is of no use.
func TestAStoppedCanarySelectsNobodyUntilItIsEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("cluster")
		l := store.New(store.Options{Sources: []store.Source{source}, Logger: slog.New(slog.DiscardHandler)})
		var judged []store.Verdict
		l.OnVerdicts(func(v []store.Verdict) { judged = v })
		start(t, l)
		unit := func(name, spec string, generation int64, conditions ...metav1.Condition) store.Unit {
			return store.Unit{
				Source: templates.ClusterSource + name,
				Data:   []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec: {" + spec + "inject: {metadata: {labels: {a: b}}}}\n"),
				Object: &store.Object{Name: name, Generation: generation, Status: v1alpha1.SidecarTemplateStatus{Conditions: conditions}},
			}
		}
		report := func(units ...store.Unit) templates.Canary {
			source.reports <- store.Report{Units: units}
			synctest.Wait()
			c, ok := l.Snapshot().Canary("logs-next")
			if !ok {
				t.Fatal("the set has no canary")
			}
			return c
		}
		verdict := func() store.Verdict {
			for _, v := range judged {
				if v.Object.Name == "logs-next" {
					return v
				}
			}
			t.Fatal("there is no verdict on the canary")
			return store.Verdict{}
		}
		stopped := metav1.Condition{Type: v1alpha1.Stopped, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: "Failing"}
		const canary = "canary: {of: logs, percent: 30}, "

		c := report(unit("logs", "", 1), unit("logs-next", canary, 1))
		if v := verdict(); !c.InForce() || v.Reason != store.Compiled || v.Hash != c.Version.Hash() || v.Share == nil || *v.Share != 30 {
			t.Errorf("a good canary: %+v, verdict %+v", c, v)
		}
		version := c.Version
		if c = report(unit("logs", "", 1), unit("logs-next", canary, 1, stopped)); c.InForce() || !c.Stopped || c.Version != version {
			t.Errorf("a stopped canary: %+v", c)
		}
		if c = report(unit("logs", "", 1), unit("logs-next", canary, 2, stopped)); !c.InForce() {
			t.Errorf("an edited canary: %+v", c)
		}
		if c = report(unit("logs-next", canary, 2)); c.InForce() || verdict().Reason != store.CanaryUnusable || verdict().Hash != "" {
			t.Errorf("without the stable template: %+v, verdict %+v", c, verdict())
		}
		if c = report(unit("logs", "", 1), unit("logs-next", "canary: {of: logs, percent: 300}, ", 3)); c.InForce() || verdict().Reason != store.CompileFailed {
			t.Errorf("a canary with a mistake: %+v, verdict %+v", c, verdict())
		}
	})
}
