package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

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

// The template with a mistake is there before anybody refuses it.
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
	g := newCertsGround(t)
	g.install(t, false)
	good := manifest{name: "good", spec: sidecarSpec}.yaml()
	bad := strings.NewReplacer("name: good", "name: bad", "${params.", "${parms.").Replace(good)
	for _, text := range []string{good, bad} {
		g.run(t, "kubectl", "create", "-f", inFile(t, "template.yaml", text))
	}
	healths := func(name string) (argo, flux string) {
		t.Helper()
		var object unstructured.Unstructured
		text := g.run(t, "kubectl", "get", "sidecartemplate", name, "-o", "json")
		expectNoError(t, object.UnmarshalJSON([]byte(text)))
		result, err := status.Compute(&object)
		expectNoError(t, err)
		l := lua.NewState()
		defer l.Close()
		l.SetGlobal("obj", luaValue(l, object.Object))
		expectNoError(t, l.DoString(check))
		health := l.Get(-1).(*lua.LTable)
		if health.RawGetString("message").String() == "" {
			t.Errorf("the health of %s has no message", name)
		}
		return health.RawGetString("status").String(), result.Status.String()
	}
	for _, name := range []string{"good", "bad"} {
		if argo, _ := healths(name); argo != "Progressing" {
			t.Errorf("before Pillion has looked at it, %s is %s", name, argo)
		}
	}
	g.scale(t)
	for name, want := range map[string]string{"good": "Healthy Current", "bad": "Degraded InProgress"} {
		g.run(t, "kubectl", "wait", "sidecartemplate/"+name, "--for=jsonpath={.status.observedGeneration}", "--timeout=20s")
		if argo, flux := healths(name); argo+" "+flux != want {
			t.Errorf("%s is %s for Argo CD and %s for Flux, want %s", name, argo, flux, want)
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
