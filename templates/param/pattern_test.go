package param

import (
	"fmt"
	"strings"
	"testing"
)

func TestARegularExpressionOfATemplateOfANamespaceIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?":   "",
		"(a?){240}b":                           "repeat less, as in {0,63}",
		strings.Repeat("a", maxInstructions-2): "",
		strings.Repeat("a", maxPatternBytes+1): fmt.Sprintf("at most %d are allowed", maxPatternBytes),
		"(":                                    "is not a regular expression",
	} {
		_, err := (&Patterns{Namespaced: true}).Compile(text)
		if got := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && !strings.Contains(got, want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
		if _, err := (&Patterns{}).Compile(text); (err != nil) != (text == "(") {
			t.Errorf("%.40s in a template of the cluster: %v", text, err)
		}
	}
}

func TestATemplateOfANamespaceHasTenRegularExpressions(t *testing.T) {
	namespaced, cluster := &Patterns{Namespaced: true}, &Patterns{}
	for i := range maxPatterns + 1 {
		if _, err := namespaced.Compile("a"); (err != nil) != (i == maxPatterns) {
			t.Errorf("expression %d: %v", i+1, err)
		}
		if _, err := cluster.Compile("a"); err != nil {
			t.Errorf("expression %d of a template of the cluster: %v", i+1, err)
		}
	}
}
