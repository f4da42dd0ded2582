package main

import (
	"log/slog"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/webhook/state"
)

// registerSettings registers the metrics that never change: the version, the settings, and the bounds that alerts
// compare with.
func registerSettings(registry prometheus.Registerer, c settings.Settings) {
	constant := func(name, help string, value float64, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		g.Set(value)
		registry.MustRegister(g)
	}
	constant("pillion_build_info", "1, with the version of Pillion and of Go.", 1, prometheus.Labels{"version": version, "goversion": runtime.Version()})
	constant("pillion_config_info", "1, with the settings that decide how pods are treated.", 1, prometheus.Labels{
		"enforcement": string(c.Namespaces.Enforcement), "webhook_scope": c.Reviews.Scope, "certs_provider": c.Certificates.Provider,
	})
	constant("pillion_memory_limit_bytes", "How much memory the container may use (server.memoryLimit of the settings).", float64(c.Server.MemoryBytes()), nil)
	constant("pillion_review_timeout_seconds", "The longest time that an API server waits for an answer (reviews.timeout of the settings).", c.Reviews.Timeout.Seconds(), nil)
}

// replicaState returns the function that reads the state of the replica from its metrics.
func replicaState(metrics prometheus.Gatherer, log *slog.Logger) func() any {
	return func() any {
		families, err := metrics.Gather()
		if err != nil {
			log.Debug("not all metrics could be gathered for the state", "error", err)
		}
		return state.FromMetrics(version, families)
	}
}
