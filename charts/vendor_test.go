package charts_test

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// vendorPrefixes are the prefixes of the annotations in a template's variable forms whose
// keys have none.
var vendorPrefixes = map[string]string{
	"daprd":              "dapr.io/",
	"istio-proxy":        "",
	"opentelemetry-java": "instrumentation.opentelemetry.io/",
	"vault-agent":        "vault.hashicorp.com/",
}

var formKey = regexp.MustCompile(`'([A-Za-z0-9./-]+)': '`)

// vendorKeys are the annotations of other injectors that a template reads: those of its parameters, and the keys
// of its variable forms. One that ends in - begins the keys of a family.
func vendorKeys(t *testing.T, tmpl *templates.Template) []string {
	t.Helper()
	var keys []string
	for _, p := range tmpl.Parameters() {
		if p.SecondAnnotation != "" {
			keys = append(keys, strings.Replace(p.SecondAnnotation, "KEY", "zq", 1))
		}
	}
	for _, v := range tmpl.Spec().Variables {
		if v.Name != "forms" {
			continue
		}
		for _, found := range formKey.FindAllStringSubmatch(v.Expression, -1) {
			if key := vendorPrefixes[tmpl.Name()] + found[1]; !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// likely are texts that some form accepts.
var likely = []string{
	"true", "false", "info", "debug", "json", "map", "zqa", "zq-a", "zq/a", "/zq/a", "/srv/zq/a", "1", "3000", "9090", "3000,4000", "10.1.0.0/16", "zq:/mnt/zq", "https://zq.example.com", "http", "grpc", "kubernetes",
	"64Mi", "100m", "0400", "auth/kubernetes", "zq.example.com:1", "$(HOME)", "a $(HOME) $$ {{ env \"HOME\" }} \"'\n",
}

// What a pod says by the annotations of another injector is a tenant's text, as the
// parameters' is: refused, or a value in the place of another.
func TestNoVendorAnnotationThatATemplateAcceptsChangesAShellsText(t *testing.T) {
	for _, name := range charts.Names() {
		tmpl := compile(t, name, nil, nil)
		keys := vendorKeys(t, tmpl)
		if (len(keys) > 0) != (vendorPrefixes[name] != "" || name == "istio-proxy") {
			t.Errorf("%s: the test knows its prefix: %t, its annotations are %q", name, len(keys) == 0, keys)
		}
		if len(keys) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			render := func(t *rapid.T, annotations map[string]string) *templates.Rendered {
				r, err := tmpl.Render(t.Context(), annotated(annotations))
				var refused *templates.ParameterError
				if errors.As(err, &refused) {
					return nil
				}
				if err != nil && strings.Contains(err.Error(), "two items have the same") {
					t.Skip("two that are one: the pod is refused")
				}
				if err != nil {
					t.Fatalf("with %q: %v", annotations, err)
				}
				return r
			}
			plain := map[string]string{}
			for _, key := range keys {
				if strings.HasSuffix(key, "agent-inject-secret-") {
					plain[key+"db"] = "zq/a"
				}
				if key == "vault.hashicorp.com/role" {
					plain[key] = "zq" // a pod without one is refused
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				annotations := maps.Clone(plain)
				for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 4, rapid.ID[string]).Draw(t, "keys") {
					if strings.HasSuffix(key, "-") {
						key += "db"
					}
					annotations[key] = rapid.OneOf(rapid.SampledFrom(likely), rapid.SampledFrom(nasty)).Draw(t, key)
				}
				got := render(t, annotations)
				if got == nil || got.Unmet != nil || len(got.Invalid) > 0 && slices.ContainsFunc(got.Invalid, func(v templates.Invalid) bool { return v.Name == "vendor-annotations" }) {
					return
				}
				bare := render(t, plain)
				if a, b := shellCommands(fragmenttest.Object(bare.Fragment)), shellCommands(fragmenttest.Object(got.Fragment)); !subset(b, a) {
					t.Fatalf("with %q a shell's text is %q, without them %q", annotations, b, a)
				}
				images(t, fragmenttest.Object(got.Fragment), images(t, fragmenttest.Object(bare.Fragment), nil))
				for key, value := range annotations {
					if config, ok := agentConfig(fragmenttest.Object(got.Fragment)); ok && strings.HasSuffix(key, "agent-inject-template-db") && !arrives(config, value) {
						t.Fatalf("the template %q does not arrive as it is in %v", value, config)
					}
				}
			})
		})
	}
}

// annotated is a pod with annotations, in a namespace without any.
func annotated(annotations map[string]string) templates.Input {
	values := map[string]any{}
	for key, value := range annotations {
		values[key] = value
	}
	return templates.Input{Namespace: templates.Namespace{Name: "shop"}, Pod: map[string]any{
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}, "annotations": values},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx"}}},
	}}
}

// shellCommands are the texts of shells() as JSON.
func shellCommands(fragment map[string]any) []string {
	var texts []string
	for _, text := range shells(fragment) {
		data, _ := json.Marshal(text)
		texts = append(texts, string(data))
	}
	return texts
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(text string) bool { return !slices.Contains(all, text) })
}

// images are the images of a fragment's containers; one that is not among known is an error.
func images(t *rapid.T, fragment map[string]any, known []string) []string {
	var found []string
	spec, _ := fragment["spec"].(map[string]any)
	items, _ := spec["initContainers"].([]any)
	for _, item := range items {
		image, _ := item.(map[string]any)["image"].(string)
		if found = append(found, image); known != nil && !slices.Contains(known, image) {
			t.Fatalf("an annotation of the pod brings the image %s", image)
		}
	}
	return found
}

// agentConfig is the configuration of Vault's agent as its process gets it: the kubelet
// makes one $ of two.
func agentConfig(fragment map[string]any) (any, bool) {
	spec, _ := fragment["spec"].(map[string]any)
	items, _ := spec["initContainers"].([]any)
	for _, item := range items {
		env, _ := item.(map[string]any)["env"].([]any)
		for _, v := range env {
			if variable := v.(map[string]any); variable["name"] == "AGENT_CONFIG" {
				return inJSON(strings.ReplaceAll(variable["value"].(string), "$$", "$")), true
			}
		}
	}
	return nil, false
}
