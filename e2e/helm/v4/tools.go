//go:build tools

// Package helm pins the Helm that the end-to-end tests install the chart with.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
