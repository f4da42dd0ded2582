package templates

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// defaultForeignSidecars are the containers that well-known injectors and operators put
// into pods, by the names that they have there.
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

// DefaultForeignSidecars returns the names that [Options.ForeignSidecars] has by default.
func DefaultForeignSidecars() []string { return slices.Clone(defaultForeignSidecars) }

// foreignSidecars are the containers that are not the app's for $each: App and Init. For a
// required template there are none: the name of a container would be a way around it.
func foreignSidecars(o Options, required bool) sets.Set[string] {
	switch {
	case required:
		return nil
	case o.ForeignSidecars == nil:
		return sets.New(defaultForeignSidecars...)
	}
	return sets.New(o.ForeignSidecars...)
}

// minding returns the foreign sidecars that a fragment depends on, sorted: those of the
// template where an item has $each: App or Init, and none otherwise.
func (t *Template) minding() []string {
	if t.foreign.Len() == 0 || !chooses(t.tree) {
		return nil
	}
	return sets.List(t.foreign)
}

// chooses reports whether $each leaves containers of the pod out.
func chooses(n node) bool {
	switch n := n.(type) {
	case *mapping:
		return slices.ContainsFunc(n.entries, func(e entry) bool { return chooses(e.value) })
	case *sequence:
		return slices.ContainsFunc(n.items, func(it item) bool { return it.each == eachApp || it.each == eachInit || chooses(it.node) })
	}
	return false
}
