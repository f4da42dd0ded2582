package templates

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// defaultForeignSidecars are the names of the containers that well-known injectors and operators add to pods.
var defaultForeignSidecars = []string{
	"istio-proxy", "istio-init", "istio-validation",
	"linkerd-proxy", "linkerd-init", "linkerd-network-validator", "linkerd-debug",
	"kuma-sidecar", "kuma-init", "kuma-validation",
	"consul-dataplane", "consul-connect-inject-init",
	"daprd",
	"vault-agent", "vault-agent-init",
	"otc-container", "opentelemetry-auto-instrumentation-java", "opentelemetry-auto-instrumentation-nodejs",
	"opentelemetry-auto-instrumentation-python", "opentelemetry-auto-instrumentation-dotnet",
	"datadog-agent-injected", "datadog-init-apm-inject", "datadog-lib-java-init", "datadog-lib-js-init", "datadog-lib-python-init", "datadog-lib-dotnet-init", "datadog-lib-ruby-init", "datadog-lib-php-init",
	"dynatrace-operator", "install-oneagent",
	"gke-gcsfuse-sidecar", "gke-gcsfuse-metadata-prefetch",
	"azwi-proxy", "azwi-proxy-init",
	"queue-proxy",
}

// DefaultForeignSidecars returns the default of [Options.ForeignSidecars].
func DefaultForeignSidecars() []string { return slices.Clone(defaultForeignSidecars) }

// foreignSidecars returns the containers that $each: App and Init leave out. For a required template it returns
// none, because a pod's author could otherwise escape the template by a container's name.
func foreignSidecars(o Options, required bool) sets.Set[string] {
	switch {
	case required:
		return nil
	case o.ForeignSidecars == nil:
		return sets.New(defaultForeignSidecars...)
	}
	return sets.New(o.ForeignSidecars...)
}

// foreignSidecarsRead returns the foreign sidecars on which the rendering depends, sorted: all of them if an item has
// $each: App or Init, else none.
func (t *Template) foreignSidecarsRead() []string {
	if t.foreign.Len() == 0 || !excludesSidecars(t.tree) {
		return nil
	}
	return sets.List(t.foreign)
}

// excludesSidecars reports whether $each leaves out containers of the pod.
func excludesSidecars(n node) bool {
	switch n := n.(type) {
	case *mapping:
		return slices.ContainsFunc(n.entries, func(e entry) bool { return excludesSidecars(e.value) })
	case *sequence:
		return slices.ContainsFunc(n.items, func(it item) bool { return it.each == eachApp || it.each == eachInit || excludesSidecars(it.node) })
	}
	return false
}
