package main

import (
	"context"
	"errors"
	"time"

	"github.com/pillion-dev/pillion/controller/upgradegate"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// named reports whether namespaces name a template.
func (r *replica) named(template string) bool {
	return len(r.c.Usage().Naming([]string{template}, r.namespaces.All())) > 0
}

// countUsage makes the counter of what namespaces use.
func (r *replica) countUsage() {
	r.counter = usage.NewCounter(usage.CounterOptions{Rules: r.c.Usage(), Templates: r.set.Snapshot, Namespaces: r.namespaces.All, Ready: r.loaded})
	r.registry.MustRegister(r.counter)
	r.set.OnChange(func(*templates.Set) { r.counter.Changed() })
	r.counter.OnCount(func(usage.Count) { r.set.UsageChanged() })
	r.namespaces.OnChange(func(string) { r.counter.Changed() })
	r.run(r.counter.Run)
}

// gateUpgrades makes the check that no template in use is missing, and what records those.
func (r *replica) gateUpgrades() {
	if r.c.InUse == "" {
		return
	}
	gate := upgradegate.New(upgradegate.Options{
		ConfigMaps: r.client.CoreV1().ConfigMaps(r.c.Namespace), Name: r.c.InUse, Instance: instance(), Rules: r.c.Usage(),
		Namespaces: r.namespaces.All, Allowed: r.c.AllowMissingTemplates, Logger: r.logger("templates in use"),
		Serving: func() error { return errors.Join(r.source.Ready(), r.loaded()) },
	})
	r.registry.MustRegister(gate)
	r.counter.OnCount(gate.Counted)
	r.inUse = []webhook.Check{{Name: "templates in use", Ready: gate.Ready}}
	r.run(gate.Run)
}

// checkAll returns what the checks say is missing, or nil.
func checkAll(checks []webhook.Check) error {
	for _, c := range checks {
		if err := c.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// once returns a run that begins when something is ready.
func once(ready func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !waiting.UntilReady(ctx, 20*time.Millisecond, ready) {
			return nil
		}
		return run(ctx)
	}
}
