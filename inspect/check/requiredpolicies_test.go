package check

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/admissionpolicy"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// floor adds the admission policy of the required template mesh, and its binding.
func (g *ground) floor(change func(f *admissionpolicy.Floor)) {
	text, err := yaml.Marshal(g.objects["SidecarTemplate//mesh"])
	if err != nil {
		g.t.Fatal(err)
	}
	f, err := admissionpolicy.Of(g.t.Context(), templatestest.Compile(g.t, string(text)), admissionpolicy.Options{Excluded: []string{"kube-system", "pillion-system"}})
	if err != nil {
		g.t.Fatal(err)
	}
	change(&f)
	for _, o := range []any{f.Policy, f.Binding} {
		text, err := json.Marshal(o)
		if err != nil {
			g.t.Fatal(err)
		}
		g.add(string(text))
	}
}

func TestThePolicyOfARequiredTemplateIsComparedWithTheTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(f *admissionpolicy.Floor)
		change func(g *ground)
		says   string
		remedy string
	}{
		"as it is printed": {},
		"older than the template": {policy: func(f *admissionpolicy.Floor) { f.Policy.Spec.Validations = f.Policy.Spec.Validations[1:] },
			says: "the admission policy required-mesh.pillion.dev is not as the template mesh is now", remedy: "pillion policy mesh --cluster | kubectl replace -f -"},
		"bound for some pods": {policy: func(f *admissionpolicy.Floor) {
			f.Binding.Spec.MatchResources = nil
			f.Binding.Spec.PolicyName = "other"
		},
			says: "has no binding for all pods", remedy: "pillion policy mesh --cluster | kubectl apply -f -"},
		"of a template that is gone": {change: func(g *ground) {
			delete(g.objects, "SidecarTemplate//mesh")
			delete(g.states["a"].Templates, "mesh")
			delete(g.states["b"].Templates, "mesh")
		}, says: "is for the template mesh, which does not exist", remedy: applyTemplates},
		"of a template that is in force without its object": {change: func(g *ground) { delete(g.objects, "SidecarTemplate//mesh") }},
		"of a template that can have none": {change: func(g *ground) { g.set("SidecarTemplate//mesh", "spec.suspend", true) },
			says: "there should be no admission policy required-mesh.pillion.dev", remedy: "kubectl delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found required-mesh.pillion.dev"},
	} {
		g := soundGround(t)
		g.floor(func(f *admissionpolicy.Floor) {
			if c.policy != nil {
				c.policy(f)
			}
		})
		if c.change != nil {
			c.change(g)
		}
		r := g.run()
		o := r.Outcomes[slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Name == "required-policies" })]
		if c.says == "" != (len(o.Findings) == 0) || c.says != "" && (!strings.Contains(o.Findings[0].Message, c.says) || o.Findings[0].Remedy != c.remedy) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
