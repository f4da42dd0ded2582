package inspect

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/templates"
)

// What tests see beside what commands see.

const (
	MostNamed     = mostNamed
	MostWorkloads = mostWorkloads
)

var (
	TryNamed = tryNamed
	GetURL   = getURL
)

func (p Place) Command(text string) string { return p.command(text) }

func (p Proof) NamedBy(ctx context.Context, rules usage.Rules) (map[string][]string, error) {
	return p.named(ctx, rules)
}

func (p Proof) Injected(ctx context.Context) (Proven, error) { return p.injected(ctx) }

func (r Replica) Name() string { return r.name }

func Floors(ctx context.Context, all []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding, set *templates.Set, s check.Settings) []check.Floor {
	return floors(ctx, check.Policies{All: all, Bindings: bindings}, set, s)
}
