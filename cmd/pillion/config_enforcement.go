package main

import (
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/controller/labels"
)

// enforcementFlags are those about namespaces where a failure of Pillion refuses pods.
func (c *serveConfig) enforcementFlags(f *pflag.FlagSet) {
	f.StringVar((*string)(&c.Enforcement), "enforcement", string(labels.EnforceRequired), "which namespaces Pillion enforces: Required (a required template selects them), Asked (these, and those that ask by annotation), None")
	f.StringVar(&c.ProofNamespace, "proof-namespace", "", "namespace in which Pillion creates pods by dry run to prove that it works (default: no proof, and nothing is enforced)")
}

func (c serveConfig) validateEnforcement(wrong complaint) {
	wrong.unlessOneOf("enforcement", string(c.Enforcement), labels.Enforcements...)
	if c.ProofNamespace != "" && len(validation.IsDNS1123Label(c.ProofNamespace)) > 0 {
		wrong("proof-namespace", c.ProofNamespace, "must be a name of lower case letters, digits and dashes")
	}
	if c.ProofNamespace != "" && (c.ProofNamespace == c.Namespace || slices.Contains(c.Excluded, c.ProofNamespace)) {
		wrong("proof-namespace", c.ProofNamespace, "must be neither Pillion's own namespace nor one of --excluded-namespaces, where no pod is injected")
	}
}

// proves reports whether Pillion proves that it works.
func (c serveConfig) proves() bool { return c.ProofNamespace != "" }
