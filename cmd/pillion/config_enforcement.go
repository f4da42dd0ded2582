package main

import (
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/controller/labels"
)

// The values of --enforcement.
const (
	enforcementAuto   = "Auto"
	enforcementManual = "Manual"
)

// enforcementFlags are those about namespaces where a failure of Pillion refuses pods.
func (c *serveConfig) enforcementFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Enforcement, "enforcement", enforcementAuto, "Auto: Pillion enforces namespaces that ask for sidecars once it has proven that it works; Manual: only you enforce")
	f.StringVar((*string)(&c.Match), "enforcement-match", string(labels.MatchRequired), "which templates make a namespace enforced by their match alone: Required (required templates), All, None; the others make it enabled")
	f.StringVar(&c.ProofNamespace, "proof-namespace", "", "namespace in which Pillion creates pods by dry run to prove that it works (default: no proof, and nothing is enforced)")
	f.DurationVar(&c.TakeBackAfter, "take-back-after", 0, "how long proofs must fail before the namespaces that Pillion enforced become enabled; 0: never")
}

func (c serveConfig) validateEnforcement(wrong complaint) {
	wrong.unlessOneOf("enforcement", c.Enforcement, enforcementAuto, enforcementManual)
	wrong.unlessOneOf("enforcement-match", string(c.Match), string(labels.MatchRequired), string(labels.MatchAll), string(labels.MatchNone))
	if c.ProofNamespace != "" && len(validation.IsDNS1123Label(c.ProofNamespace)) > 0 {
		wrong("proof-namespace", c.ProofNamespace, "must be a name of lower case letters, digits and dashes")
	}
	if c.ProofNamespace != "" && (c.ProofNamespace == c.Namespace || slices.Contains(c.Excluded, c.ProofNamespace)) {
		wrong("proof-namespace", c.ProofNamespace, "must be neither Pillion's own namespace nor one of --excluded-namespaces, where no pod is injected")
	}
	if c.TakeBackAfter < 0 {
		wrong("take-back-after", c.TakeBackAfter, "must be a positive duration such as 10m, or 0 for never")
	}
}

// proves reports whether Pillion proves that it works.
func (c serveConfig) proves() bool { return c.ProofNamespace != "" }
