package inspect

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/pillion-dev/pillion/inspect/chain"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
)

// What tests see beside what commands see.

const (
	MostWorkloads = mostWorkloads
)

var (
	PolicyVersions = policyVersions
	GetURL         = getURL
)

func (c *Cluster) Chained(ctx context.Context) (chain.Objects, []explain.Note, error) {
	return c.chained(ctx)
}

func (p Place) Command(text string) string { return p.command(text) }

func (r Replica) Name() string { return r.name }

func Floors(ctx context.Context, all []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding, set *templates.Set, s check.Settings) []check.Floor {
	return floors(ctx, check.Policies{All: all, Bindings: bindings}, set, s)
}
