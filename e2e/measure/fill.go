package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
)

// How many namespaces and how many templates are made at the same time. A template takes Pillion a
// moment to compile.
const namespaceClients, templateClients = 32, 4

// lastApplied is the annotation in which kubectl apply notes what it was given.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// manager is the field manager of kubectl apply.
var manager = metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}

// A Filling is what a large cluster has: namespaces and SidecarTemplates, as people make them with
// kubectl apply. Each namespace asks for fluent-bit, in one of several templates made of the
// library's.
type Filling struct {
	Namespaces, Templates int
	kinds                 kinds
}

// Fill makes the namespaces and templates, and writes to out how far it is.
func (c *Cluster) Fill(ctx context.Context, f Filling, out io.Writer) error {
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if f.kinds, err = readLibrary(); err != nil {
		return err
	}
	templates := objects.Resource(schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"})
	err = each(ctx, out, "templates", f.Templates, templateClients, func(ctx context.Context, i int) error {
		template, err := f.kinds.template(i)
		if err != nil {
			return err
		}
		_, err = templates.Create(ctx, template, manager)
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, out, "namespaces", f.Namespaces, namespaceClients, func(ctx context.Context, i int) error {
		_, err := c.Client.CoreV1().Namespaces().Create(ctx, f.namespace(i), manager)
		return err
	})
}

// each calls do for 0 to n-1, so many at the same time.
func each(ctx context.Context, out io.Writer, what string, n, clients int, do func(context.Context, int) error) error {
	began := time.Now()
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := do(ctx, i); err != nil {
				return fmt.Errorf("making number %d of the %s: %w", i, what, err)
			}
			if made := done.Add(1); made%1000 == 0 || made == int64(n) {
				fmt.Fprintf(out, "%d of %d %s after %.1f s\n", made, n, what, time.Since(began).Seconds())
			}
			return nil
		})
	}
	return group.Wait()
}

var stages = []string{"dev", "test", "staging", "production"}

// NamespaceName is the name of number i of the namespaces that [Cluster.Fill] makes.
func NamespaceName(i int) string { return fmt.Sprintf("team-%04d-%s", i/4, stages[i%4]) }

// namespace is number i, with the labels and annotations that a platform team's tools give
// to a team's namespace.
func (f Filling) namespace(i int) *corev1.Namespace {
	team := i / 4
	// The library is there several times. A team uses one of them.
	copyOf := fmt.Sprintf("%04d", team%max(1, f.Templates/len(f.kinds)))
	ns := &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: NamespaceName(i),
			Labels: map[string]string{
				"app.kubernetes.io/managed-by":       "platform",
				"cost-center":                        fmt.Sprint("cc-", 1000+team%300),
				"environment":                        stages[i%4],
				"library":                            copyOf,
				"pod-security.kubernetes.io/enforce": "restricted",
				"pod-security.kubernetes.io/enforce-version": "latest",
				"team": fmt.Sprintf("team-%04d", team),
			},
			Annotations: map[string]string{
				"example.com/contact":     fmt.Sprintf("team-%04d@example.com", team),
				"example.com/description": fmt.Sprintf("The applications of team %d, in their stage number %d.", team, i%4),
				"pillion.dev/inject":      "fluent-bit-" + copyOf,
			},
		},
	}
	ns.Annotations[lastApplied] = mustJSON(ns)
	return ns
}

// kinds are the library's manifests, from which the templates are made.
type kinds []string

func readLibrary() (kinds, error) {
	var all kinds
	for _, name := range charts.Names() {
		text, err := charts.Template(name)
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// template is number i: one of the library's with a name, a description, parameters,
// validations and a selector of its own.
func (k kinds) template(i int) (*unstructured.Unstructured, error) {
	t := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k[i%len(k)]), &t.Object); err != nil {
		return nil, fmt.Errorf("reading a template of the library: %w", err)
	}
	copyOf := fmt.Sprintf("%04d", i/len(k))
	name := t.GetName() + "-" + copyOf
	t.SetName(name)
	t.SetLabels(map[string]string{"team": fmt.Sprintf("team-%04d", i), "app.kubernetes.io/managed-by": "platform"})
	spec := t.Object["spec"].(map[string]any)
	spec["description"] = fmt.Sprintf("%s For team %d.", spec["description"], i)
	spec["order"] = int64(i % 100)
	spec["availableTo"] = map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"library": copyOf}}}
	if i%10 == 0 {
		spec["match"] = map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/part-of": name}}}
	}
	parameters, _ := spec["parameters"].([]any)
	spec["parameters"] = append(parameters, map[string]any{
		"name": fmt.Sprint("tier", i), "type": "string", "enum": []any{"small", "large"}, "default": "small", "description": fmt.Sprintf("The tier of team %d.", i),
	})
	validations, _ := spec["validations"].([]any)
	spec["validations"] = append(validations, map[string]any{
		"name":       "tier",
		"expression": fmt.Sprintf("params.tier%d == 'small' || namespaceObject.metadata.?labels['environment'].orValue('') == 'production'", i),
		"message":    "the large tier is for production",
	})
	t.SetAnnotations(map[string]string{lastApplied: mustJSON(t.Object)})
	return t, nil
}

// mustJSON is the JSON of plain data.
func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("plain data as JSON: %v", err))
	}
	return string(data)
}
