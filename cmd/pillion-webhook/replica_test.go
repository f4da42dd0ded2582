package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// The registration of another version, or of other settings, calls them.
func TestEveryPathOfTheVersionBeforeIsServed(t *testing.T) {
	list, err := os.ReadFile("../../webhook/testdata/paths-before.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []string{settings.Requested, settings.All} {
		replica, _ := testReplica(t, func(s *settings.Settings) { s.Reviews.Scope = scope })
		handlers := replica.handlers()
		for path := range strings.Lines(string(list)) {
			if path = strings.TrimSpace(path); strings.HasPrefix(path, "/") && handlers[path] == nil {
				t.Errorf("scope %s: nothing answers at %s", scope, path)
			}
		}
	}
}

func TestAWrongCommandLineOrSettingSaysWhatIsAllowed(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(wrong, []byte("server: {namespace: x, logLevel: loud}\nreviews: {timeout: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	right := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(right, []byte("server: {namespace: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                  "pillion-webhook: --config is required: the file that the chart renders",
		"serve":             `pillion-webhook takes no arguments, got ["serve"]; its flags are --config and --kubeconfig`,
		"--listen=:1":       "unknown flag: --listen",
		"--config=/none":    "reading the settings: open /none",
		"--config=" + wrong: `server.logLevel is "loud"; must be one of debug, info, warn, error` + "\n" + `reviews.timeout is "1m0s"; must be from 1s to 30s`,
		"--config=" + right: "not running in a pod of a cluster: --kubeconfig is required",
		"--config=" + right + " --kubeconfig=/none": "!finding the API server: ",
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(line), &out, &errs)
		want, other := strings.CutPrefix(want, "!")
		if (code == exitError) != other || code == exitDone || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit code %d, %q\n%s\nwant %q", line, code, out.String(), &errs, want)
		}
	}
}

// proofSet returns a set with the template of proofs and another one.
func proofSet(t *testing.T) *templates.Set {
	t.Helper()
	own := templatestest.Compile(t, string(proof.Manifest("own-proof")))
	other := templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: environment}, spec: {inject: {metadata: {labels: {a: b}}}}}")
	return templates.NewSet([]templates.Entry{{Name: own.Name(), Template: own}, {Name: other.Name(), Template: other}})
}

func TestTheTemplateOfProofsIsForItsNamespaceAndInNoList(t *testing.T) {
	set := proofSet(t)
	e, _ := set.Get(proof.Template)
	if e.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "shop"}) || !e.AvailableTo(map[string]string{"kubernetes.io/metadata.name": "own-proof"}) {
		t.Errorf("the entry is %+v, want one for the proof's namespace", e)
	}
	if listed := withoutProof(set); len(listed.Entries()) != 1 || listed.Entries()[0].Name != "environment" {
		t.Errorf("the list is %v", listed.All())
	}
}

func TestNoMessageOffersTheTemplateOfProofs(t *testing.T) {
	pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pillion.dev/inject": "unknown"}}, "spec": map[string]any{}}
	out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Templates: proofSet(t), Namespace: templates.Namespace{Name: "shop"}})
	if err != nil || !strings.Contains(out.Message, "there are: environment (") {
		t.Errorf("%v: %s", err, out.Message)
	}
}

func TestTheConditionAcceptedSaysWhatTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	const sidecar = "inject: {spec: {initContainers: [{name: s, image: s, restartPolicy: Always"
	yes := func(context.Context, map[string]any) error { return nil }
	no := func(_ context.Context, pod map[string]any) error {
		if containers, _ := pod["spec"].(map[string]any)["initContainers"].([]any); len(containers) == 0 {
			return nil // the sample without the template
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Invalid(field.NewPath("spec").Child("initContainers").Index(0).Child("image"), "s", "no")})
	}
	away := func(context.Context, map[string]any) error { return errors.New("connection refused") }
	for name, c := range map[string]struct {
		spec   string
		create func(context.Context, map[string]any) error
		want   string // STATUS REASON
		says   string
		// refuses: the guard refuses the template.
		refuses bool
	}{
		"a valid pod":           {sidecar + "}]}}", yes, "True Valid", "accepts", false},
		"no valid pod":          {sidecar + "}]}}", no, "False Invalid", "template t: spec.inject.spec.initContainers[0].image: the API server refuses pods that get this: container s: Invalid value: \"s\": no", true},
		"no answer":             {sidecar + "}]}}", away, "Unknown NoAnswer", "connection refused", false},
		"nobody to ask":         {sidecar + "}]}}", nil, "Unknown NotAsked", "enforcement=None", false},
		"no sample pod gets it": {"matchConditions: [{name: never, expression: \"has(pod.metadata.uid)\"}]\n  " + sidecar + "}]}}", yes, "Unknown NotAsked", "no sample pod gets the template", false},
	} {
		o := templateOracle{oracle.Oracle{Create: c.create}}
		compiled := templatestest.Compile(t, "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec:\n  "+c.spec+"\n")
		got := o.acceptance(t.Context(), compiled)
		if string(got.Status)+" "+got.Reason != c.want || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.want, c.says)
		}
		if problems, _ := o.problems(t.Context(), templates.Document{}, compiled); len(problems) > 0 != c.refuses {
			t.Errorf("%s: the guard refuses it for %v", name, problems)
		}
	}
}
