package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

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
