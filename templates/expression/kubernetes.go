package expression

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/component-base/version"

	"github.com/pillion-dev/pillion/templates/show"
)

// KubernetesVersion is the version of an API server, as kubernetes in expressions.
type KubernetesVersion struct{ Major, Minor int }

// String returns the version as in 1.36.
func (v KubernetesVersion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Compare returns -1, 0 or 1, as v is older than other, the same, or newer.
func (v KubernetesVersion) Compare(other KubernetesVersion) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

var versionText = regexp.MustCompile(`\Av?([0-9]{1,4})\.([0-9]{1,4})\+?(?:[.+-][0-9A-Za-z.+-]*)?\z`)

// ParseKubernetesVersion reads a version such as 1.36, 1.36+ or v1.36.3-eks-1.
func ParseKubernetesVersion(text string) (KubernetesVersion, error) {
	found := versionText.FindStringSubmatch(text)
	if found == nil {
		return KubernetesVersion{}, fmt.Errorf("must be a version of Kubernetes such as 1.36; got %s", show.Value(text))
	}
	major, _ := strconv.Atoi(found[1]) // four digits fit
	minor, _ := strconv.Atoi(found[2])
	if major == 0 {
		return KubernetesVersion{}, fmt.Errorf("must be a version of Kubernetes such as 1.36; got %s", show.Value(text))
	}
	return KubernetesVersion{Major: major, Minor: minor}, nil
}

// NewestKubernetes returns the newest version that the libraries of this build know.
var NewestKubernetes = sync.OnceValue(func() KubernetesVersion {
	v, err := ParseKubernetesVersion(version.DefaultKubeBinaryVersion)
	if err != nil {
		panic(fmt.Sprintf("expression: the libraries' version: %v", err))
	}
	return v
})

var kubernetesFields = map[string]*cel.Type{"major": cel.IntType, "minor": cel.IntType}

// value returns the version as expressions see it.
func (v KubernetesVersion) value() ref.Val {
	return adapt(map[string]any{"major": int64(v.Major), "minor": int64(v.Minor)})
}

// ReadsKubernetes reports whether an expression of the template reads kubernetes.
func (e *Environment) ReadsKubernetes() bool { return len(e.template.reads[kubernetesName]) > 0 }
