package templates

import "github.com/pillion-dev/pillion/templates/expression"

// KubernetesVersion is the version of an API server. The zero value is none.
type KubernetesVersion = expression.KubernetesVersion

// ParseKubernetesVersion reads a version such as 1.36, 1.36+ or v1.36.3.
func ParseKubernetesVersion(text string) (KubernetesVersion, error) {
	return expression.ParseKubernetesVersion(text)
}

// NewestKubernetes returns the newest version that the libraries of this build know.
func NewestKubernetes() KubernetesVersion { return expression.NewestKubernetes() }

// OldestKubernetes returns the oldest version that Pillion is tested on, and that its chart installs on.
func OldestKubernetes() KubernetesVersion { return KubernetesVersion{Major: 1, Minor: 35} }

// oldKubernetes is a version before what templates ask for. A template that asks for the
// version is tried with it as well, so that both sides of the question are.
var oldKubernetes = KubernetesVersion{Major: 1, Minor: 30}
