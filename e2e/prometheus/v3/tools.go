//go:build tools

// Package prometheus pins the promtool that checks the metrics and the alert rules.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/promtool"
