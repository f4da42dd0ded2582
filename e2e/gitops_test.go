package e2e

import (
	"cmp"
	"os"
	"os/exec"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestHelmTemplateWithoutAClusterGivesWhatIsInstalled(t *testing.T) {
	t.Parallel()
	template := exec.CommandContext(t.Context(), shared.Tool("helm"), append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "--no-hooks"}, installed...)...)
	template.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + t.TempDir() + "/none"}
	out, err := template.Output()
	expectNoError(t, err)
	manifests := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	if got, want := strings.TrimSpace(string(out)), strings.TrimSpace(manifests); got != want {
		t.Errorf("helm template without a cluster gives\n%s\nand helm install made\n%s", got, want)
	}
}

// What Pillion writes into the status of a template is told in guard_test.go.
func TestGitOpsToolsSeeWhetherATemplateIsReady(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(checkout.Path("docs", "how-to", "gitops.md"))
	expectNoError(t, err)
	check := ""
	for _, b := range transcript.Blocks(string(page)) {
		if b.Fence == "lua" {
			check = b.Text
		}
	}
	for of, want := range map[string]string{
		"": "Progressing Current", // before Pillion has looked at it
		"{observedGeneration: 1, conditions: [{type: Ready, status: 'True', reason: Compiled, message: It compiles.}]}":         "Healthy Current",
		"{observedGeneration: 1, conditions: [{type: Ready, status: 'False', reason: TemplateInvalid, message: It does not.}]}": "Degraded InProgress",
	} {
		var object unstructured.Unstructured
		text, err := yaml.YAMLToJSON([]byte("{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side, generation: 1}, status: " + cmp.Or(of, "{}") + "}"))
		expectNoError(t, err)
		expectNoError(t, object.UnmarshalJSON(text))
		flux, err := status.Compute(&object)
		expectNoError(t, err)
		l := lua.NewState()
		defer l.Close()
		l.SetGlobal("obj", luaValue(l, object.Object))
		expectNoError(t, l.DoString(check))
		argo := l.Get(-1).(*lua.LTable)
		if got := argo.RawGetString("status").String() + " " + flux.Status.String(); got != want || argo.RawGetString("message").String() == "" {
			t.Errorf("with the status %s it is %s for Argo CD and Flux (%s), want %s", of, got, argo.RawGetString("message"), want)
		}
	}
}

// luaValue is a value of JSON in Lua, as Argo CD hands objects to health checks.
func luaValue(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, below := range v {
			table.RawSetString(key, luaValue(l, below))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, below := range v {
			table.Append(luaValue(l, below))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}
