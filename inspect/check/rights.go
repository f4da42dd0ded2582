package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// Needs say what a server does, as far as its rights depend on it.
type Needs struct {
	Settings
	CASecret, ServingSecret string
	CreateCASecret          bool
	UninstallMarker, InUse  string
	ReadWorkloads           bool
	// CountEvery is the time between two looks at the pods, 0 for none.
	CountEvery  time.Duration
	OwnerEvents bool
}

// ServerRights returns the rights without which a server does not do what it is told.
func ServerRights(n Needs) []rights.Right {
	var all []rights.Right
	may := func(r rights.Right, verbs ...string) {
		for _, verb := range verbs {
			r.Verb = verb
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	may(rights.Right{Resource: "namespaces"}, "get", "list", "watch", "patch")
	may(rights.Right{Group: "events.k8s.io", Resource: "events"}, "create")
	if n.ClusterTemplates {
		may(rights.Right{Group: n.Prefix, Resource: "sidecartemplates"}, "list", "watch")
		may(rights.Right{Group: n.Prefix, Resource: "sidecartemplates", Subresource: "status"}, "patch")
		may(rights.Right{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "sidecartemplates." + n.Prefix}, "get")
		may(rights.Right{Group: n.Prefix, Resource: "namespacedsidecartemplates"}, "get", "list", "watch")
		may(rights.Right{Group: n.Prefix, Resource: "namespacedsidecartemplates", Subresource: "status"}, "patch")
		may(rights.Right{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "namespacedsidecartemplates." + n.Prefix}, "get")
	}
	if n.MirrorPolicy != "" {
		may(rights.Right{Group: n.Prefix, Resource: "sidecartemplates"}, "create", "update", "delete")
		may(rights.Right{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Name: n.MirrorPolicy}, "get")
	}
	own := func(resource, name string) rights.Right {
		return rights.Right{Resource: resource, Namespace: n.Namespace, Name: name}
	}
	switch n.Provider {
	case "self-signed":
		may(own("secrets", n.CASecret), "get", "list", "watch", "update")
		if n.CreateCASecret {
			may(own("secrets", ""), "create")
		}
	case "cert-manager":
		may(own("secrets", n.ServingSecret), "list", "watch")
		if n.Publishes {
			may(own("secrets", n.ServingSecret), "get", "update")
		}
	}
	for kind, names := range map[string][]string{"mutatingwebhookconfigurations": n.Mutating, "validatingwebhookconfigurations": n.Validating} {
		for _, name := range names {
			r := rights.Right{Group: "admissionregistration.k8s.io", Resource: kind, Name: name}
			may(r, "list", "watch")
			if n.Publishes {
				may(r, "patch")
			}
		}
	}
	if n.InUse != "" {
		may(own("configmaps", n.InUse), "get", "update")
	}
	if n.UninstallMarker != "" {
		may(own("configmaps", n.UninstallMarker), "watch")
	}
	for _, kind := range owner.Kinds {
		if n.ReadWorkloads && kind.Written {
			may(rights.Right{Group: kind.Group, Resource: kind.Resource}, "list")
		}
		if n.OwnerEvents {
			may(rights.Right{Group: kind.Group, Resource: kind.Resource}, "get")
		}
	}
	if n.ReadWorkloads || n.CountEvery > 0 {
		may(rights.Right{Resource: "pods"}, "list")
	}
	if n.ProofNamespace != "" {
		may(rights.Right{Resource: "pods", Namespace: n.ProofNamespace}, "create")
	}
	slices.SortFunc(all, func(a, b rights.Right) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func serverRights(f *Facts, s Settings) []Finding {
	denied := f.Denied.Value
	account := strings.TrimPrefix(s.Account, "system:serviceaccount:")
	if len(denied) > 0 && s.Release != "" {
		var names []string
		for _, r := range denied {
			names = append(names, r.String())
		}
		return []Finding{failed(fmt.Sprintf("Pillion's service account %s lacks the right to %s; the chart grants it with rbac.create=true", account, show.Some(names, mostNamed)), s.restore()...)}
	}
	var found []Finding
	for _, r := range denied {
		found = append(found, failed(fmt.Sprintf("Pillion's service account %s lacks the right to %s", account, r), r.Grant(s.Account)...))
	}
	return found
}

// chartPolicy is a ValidatingAdmissionPolicy of the chart, and what follows from its absence.
type chartPolicy struct{ name, without string }

// policies returns those that the chart makes.
func (s Settings) policies() []chartPolicy {
	base := s.Service + "-" + s.Namespace
	all := []chartPolicy{
		{base + "-namespaces", "Pillion's token may change all of a namespace"},
		{base + "-labels", "everybody who may write a namespace may set its label " + templates.InjectionLabel(s.Prefix)},
		{base + "-selectors", "a workload that selects its pods by a label of Pillion's is not refused, and creates pods without end"},
	}
	if s.Publishes {
		all = append(all, chartPolicy{base + "-cabundle", "Pillion's token may change all of its webhook configurations"})
	}
	if s.ProofNamespace != "" {
		all = append(all, chartPolicy{base + "-proof", "Pillion's token may run pods in namespace " + s.ProofNamespace})
	}
	if s.MirrorPolicy != "" {
		all = append(all, chartPolicy{s.MirrorPolicy, "Pillion's token may write any SidecarTemplate"})
	}
	return all
}

func policiesThere(f *Facts, s Settings) []Finding {
	own := s.policies()
	if !s.Policies && !slices.ContainsFunc(own, func(p chartPolicy) bool { there, _ := f.Policies.Value.has(p.name); return there }) {
		return []Finding{warning("the chart made no ValidatingAdmissionPolicies (rbac.admissionPolicy=false): a thief of Pillion's token is a cluster admin in effect, and everybody who may write a namespace may set the label "+
			templates.InjectionLabel(s.Prefix), "kubectl get validatingadmissionpolicies")}
	}
	var found []Finding
	for _, p := range own {
		there, denies := f.Policies.Value.has(p.name)
		switch {
		case !there:
			found = append(found, failed(fmt.Sprintf("the ValidatingAdmissionPolicy %s is missing: %s", p.name, p.without), s.restore()...))
		case !denies:
			found = append(found, failed(fmt.Sprintf("no binding has the ValidatingAdmissionPolicy %s deny anything: %s", p.name, p.without), s.renew()...))
		}
	}
	return found
}
