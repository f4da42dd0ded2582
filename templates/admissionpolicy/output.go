package admissionpolicy

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/show"
)

// lineWidth is that of comments.
const lineWidth = 100

// Write writes the policy and its binding as YAML, after comments that list the requests that the policy
// refuses and the changes that it ignores.
func (f Floor) Write(w io.Writer) error {
	var out strings.Builder
	comment := func(heading string, items []string) {
		fmt.Fprintf(&out, "# %s\n", heading)
		for _, item := range items {
			lines := show.Wrap(show.Plain(item), lineWidth, lineWidth)
			fmt.Fprintf(&out, "# - %s\n", strings.Join(lines, "\n#   "))
		}
	}
	comment("API servers refuse by this policy, whether or not they can call Pillion:", f.Refuses)
	comment("It does not look at, and lets pass where Pillion is not called:", f.Passes)
	if size(&f.Policy) > mostApplied {
		out.WriteString("# It is too large for kubectl apply. Use: kubectl apply --server-side -f -\n")
	}
	for i, object := range []any{&f.Policy, &f.Binding} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("writing the policy: %w", err)
		}
		delete(fields, "status")
		delete(fields["metadata"].(map[string]any), "creationTimestamp")
		text, err := yaml.Marshal(fields)
		if err != nil {
			return fmt.Errorf("writing the policy: %w", err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
