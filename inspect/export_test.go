package inspect

import (
	"context"

	"github.com/pillion-dev/pillion/controller/usage"
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

func (p Proof) NamedBy(ctx context.Context, rules usage.Rules) (map[string][]string, error) {
	return p.named(ctx, rules)
}

func (p Proof) Injected(ctx context.Context) (Proven, error) { return p.injected(ctx) }

func (r Replica) Name() string { return r.name }
