package main

import (
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/proof"
)

// The values of --enforcement.
const (
	enforcementAuto   = "Auto"
	enforcementManual = "Manual"
)

// enforcementConfig are the settings of 'pillion serve' about namespaces where a failure of
// Pillion refuses pods.
type enforcementConfig struct {
	Enforcement string
	// Match says which namespaces may be enforced that only the match of a template selects.
	Match          labels.Match
	ProofNamespace string
	TakeBackAfter  time.Duration
}

func enforcementFlags(f *pflag.FlagSet) {
	f.String("enforcement", enforcementAuto, "Auto: Pillion enforces namespaces that ask for sidecars once it has proven that it works; Manual: only you enforce")
	f.String("enforcement-match", string(labels.MatchRequired), "which templates make a namespace enforced by their match alone: Required (required templates), All, None; the others make it enabled")
	f.String("proof-namespace", "", "namespace in which Pillion creates pods by dry run to prove that it works (default: no proof, and nothing is enforced)")
	f.Duration("take-back-after", 0, "how long proofs must fail before the namespaces that Pillion enforced become enabled; 0: never")
}

func readEnforcement(v *viper.Viper) enforcementConfig {
	return enforcementConfig{Enforcement: v.GetString("enforcement"), Match: labels.Match(v.GetString("enforcement-match")), ProofNamespace: v.GetString("proof-namespace"), TakeBackAfter: v.GetDuration("take-back-after")}
}

// validate needs the namespaces that Pillion keeps out of.
func (c enforcementConfig) validate(excluded []string, wrong complaint) {
	wrong.unlessOneOf("enforcement", c.Enforcement, enforcementAuto, enforcementManual)
	wrong.unlessOneOf("enforcement-match", string(c.Match), string(labels.MatchRequired), string(labels.MatchAll), string(labels.MatchNone))
	if c.ProofNamespace != "" && len(validation.IsDNS1123Label(c.ProofNamespace)) > 0 {
		wrong("proof-namespace", c.ProofNamespace, "must be a name of lower case letters, digits and dashes")
	}
	if c.ProofNamespace != "" && slices.Contains(excluded, c.ProofNamespace) {
		wrong("proof-namespace", c.ProofNamespace, "must be neither Pillion's own namespace nor one of --excluded-namespaces, where no pod is injected")
	}
	if c.TakeBackAfter < 0 {
		wrong("take-back-after", c.TakeBackAfter, "must be a positive duration such as 10m, or 0 for never")
	}
}

// proves reports whether Pillion proves that it works.
func (c enforcementConfig) proves() bool {
	return c.Enforcement == enforcementAuto && c.ProofNamespace != ""
}

// once is what holds once Pillion has proven that it works.
func (c enforcementConfig) once() proof.Enforcement {
	return proof.Enforcement{Enforce: c.proves()}
}
