package apply

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	plan "github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// sized is a pod with resources as a whole, an init container that requests 300m, and an
// app container that requests 500m.
func sized(t *testing.T, resources string) map[string]any {
	return parse(t, "spec: {resources: "+resources+", initContainers: [{name: i, image: x, resources: {requests: {cpu: 300m}}}], containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}")
}

func TestTheResourcesOfAPodFollowItsContainers(t *testing.T) {
	const (
		native = "initContainers: [{name: s, image: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}]"
		refuse = "refused"
	)
	for name, c := range map[string]struct{ pod, fragment, add, keep string }{
		"what the API server made of the containers' requests it makes anew": {"{limits: {cpu: 2}, requests: {cpu: 500m}}", native,
			`{"limits":{"cpu":"2100m"},"requests":{}}`, `{"limits":{"cpu":2},"requests":{}}`},
		"an author's own with room": {"{limits: {cpu: 2}, requests: {cpu: 1}}", native,
			`{"limits":{"cpu":"2100m"},"requests":{"cpu":"1100m"}}`, `{"limits":{"cpu":2},"requests":{"cpu":1}}`},
		"no more than before": {"{limits: {cpu: 2}, requests: {cpu: 500m}}", "initContainers: [{name: s, image: s, resources: {requests: {cpu: 400m}}}]",
			`{"limits":{"cpu":2},"requests":{"cpu":"500m"}}`, `{"limits":{"cpu":2},"requests":{"cpu":"500m"}}`},
		"an init container beside it": {"{limits: {cpu: 2}, requests: {cpu: 500m}}", "initContainers: [{name: s, image: s, $position: First, restartPolicy: Always, resources: {requests: {cpu: 250m}}}]",
			`{"limits":{"cpu":"2250m"},"requests":{}}`, `{"limits":{"cpu":2},"requests":{}}`},
		"its limit, and none requests: the app keeps it": {"{limits: {memory: 2Gi}, requests: {memory: 2Gi}}", "containers: [{name: s, image: s, resources: {requests: {memory: 100Mi}}}]",
			`{"limits":{"memory":"2148Mi"},"requests":{"memory":"2148Mi"}}`, `{"limits":{"memory":"2Gi"},"requests":{"memory":"2Gi"}}`},
		"its limit, and the API server has not been there": {"{limits: {memory: 2Gi}}", "containers: [{name: s, image: s, resources: {requests: {memory: 100Mi}}}]",
			`{"limits":{"memory":"2148Mi"},"requests":{"memory":"2148Mi"}}`, `{"limits":{"memory":"2Gi"},"requests":{"memory":"2Gi"}}`},
		"without limits nothing derives": {"{requests: {cpu: 500m}}", native, `{"requests":{"cpu":"600m"}}`, refuse},
		"a limit goes before a request":  {"{limits: {cpu: 2}, requests: {cpu: 1}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 300m}, requests: {cpu: 100m}}}]", `{"limits":{"cpu":"2300m"},"requests":{"cpu":"1100m"}}`, `{"limits":{"cpu":2},"requests":{"cpu":1}}`},
		"a limit stands for a request":   {"{requests: {cpu: 500m}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 300m}}}]", `{"requests":{"cpu":"800m"}}`, refuse},
		"only what the pod names":        {"{requests: {cpu: 500m}}", "containers: [{name: s, image: s, resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}}]", `{"requests":{"cpu":"500m"}}`, `{"requests":{"cpu":"500m"}}`},
		"an init container of the template that needs more": {"{limits: {cpu: 1}, requests: {cpu: 500m}}", "initContainers: [{name: s, image: s, resources: {requests: {cpu: 3}}}]",
			`{"limits":{"cpu":"3"},"requests":{}}`, refuse},
		"an init container beside a native one": {"{requests: {cpu: 500m}}", "initContainers: [{name: m, image: s, restartPolicy: Always, resources: {requests: {cpu: 200m}}}, {name: s, image: s, resources: {requests: {cpu: 3}}}]",
			`{"requests":{"cpu":"3200m"}}`, refuse},
		"more for a container of the pod's": {"{requests: {cpu: 500m}}", "containers: [{name: web, resources: {requests: {cpu: 700m}, $onConflict: Overwrite}}]", `{"requests":{"cpu":"700m"}}`, refuse},
		"less for a container of the pod's": {"{requests: {cpu: 500m}}", "containers: [{name: web, resources: {requests: {cpu: 100m}, $onConflict: Overwrite}}]", `{"requests":{"cpu":"500m"}}`, `{"requests":{"cpu":"500m"}}`},
		"huge pages, of which the API server makes the request anew": {"{limits: {hugepages-2Mi: 4Mi, memory: 1Gi}, requests: {hugepages-2Mi: 4Mi, memory: 1Gi}}", "containers: [{name: s, image: s, resources: {limits: {hugepages-2Mi: 2Mi, memory: 1Mi}}}]",
			`{"limits":{"hugepages-2Mi":"6Mi","memory":"1025Mi"},"requests":{"memory":"1025Mi"}}`, `{"limits":{"hugepages-2Mi":"4Mi","memory":"1Gi"},"requests":{"hugepages-2Mi":"4Mi","memory":"1Gi"}}`},
		"a single container above the limit": {"{limits: {cpu: 1}, requests: {cpu: 1}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 3}, requests: {cpu: 100m}}}]",
			`{"limits":{"cpu":"4"},"requests":{"cpu":"1100m"}}`, refuse},
		"a pod that the API server refuses as it is": {"{requests: {cpu: 100m}}", native, `{"requests":{"cpu":"200m"}}`, `{"requests":{"cpu":"100m"}}`},
	} {
		for _, keep := range []bool{false, true} {
			want := c.add
			if keep {
				want = c.keep
			}
			t.Run(name, func(t *testing.T) {
				f := fragment(t, "t", "spec: {"+c.fragment+"}")
				f.KeepPodResources = keep
				var small *plan.ResourcesError
				if want == refuse {
					if _, err := mergeInto(t, sized(t, c.pod), f); !errors.As(err, &small) || small.Template != "t" {
						t.Fatalf("keep %t: %v, want a refusal", keep, err)
					}
					return
				}
				r := lawful(t, sized(t, c.pod), f)
				if got := text(at(t, r.Pod, "spec", "resources")); got != want {
					t.Fatalf("keep %t:\ngot  %s\nwant %s", keep, got, want)
				}
			})
		}
	}
}

func TestTwoTemplatesAddBoth(t *testing.T) {
	const pod = "{requests: {cpu: 500m}, limits: {cpu: 600m}}"
	sidecar := func(name, cpu string, keep bool) Fragment {
		f := fragment(t, name, "spec: {containers: [{name: "+name+", image: s, resources: {requests: {cpu: "+cpu+"}}}]}")
		f.KeepPodResources = keep
		return f
	}
	r := lawful(t, sized(t, "{requests: {cpu: 700m}}"), sidecar("a", "100m", false), sidecar("b", "40m", false))
	if got, want := text(at(t, r.Pod, "spec", "resources")), `{"requests":{"cpu":"840m"}}`; got != want {
		t.Errorf("both add: %s, want %s", got, want)
	}
	r = lawful(t, sized(t, "{requests: {cpu: 700m}}"), sidecar("a", "100m", false), sidecar("b", "40m", true))
	if got, want := text(at(t, r.Pod, "spec", "resources")), `{"requests":{"cpu":"800m"}}`; got != want {
		t.Errorf("only that of b is left out: %s, want %s", got, want)
	}
	_, err := mergeInto(t, sized(t, "{requests: {cpu: 510m}}"), sidecar("a", "100m", false), sidecar("b", "40m", true))
	const want = "template b leaves the pod's own resources as they are (podResources: Keep), and they are too small: spec.resources.requests.cpu is 610m, and the containers ask for 640m, 40m of it for this template; " +
		"set it to 640m at least in the pod, or podResources: Add in the template"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// Both want one sidecar, and one of them adds.
	shared := func(name string, keep bool) Fragment {
		f := sidecar("s", "100m", keep)
		f.Template = name
		return f
	}
	r = lawful(t, sized(t, pod), shared("a", true), shared("b", false))
	if got, want := text(at(t, r.Pod, "spec", "resources")), `{"limits":{"cpu":"700m"},"requests":{}}`; got != want {
		t.Errorf("a shared sidecar: %s, want %s", got, want)
	}
}

// A template that says what the pod as a whole has means it. Nothing is added there.
func TestATemplatesOwnPodResourcesStay(t *testing.T) {
	sizes := fragment(t, "sizes", "spec: {resources: {requests: {cpu: 1}, limits: {cpu: 1}}}")
	log := fragment(t, "log", "spec: {containers: [{name: log, image: s, resources: {requests: {cpu: 100m}}}]}")
	bare := parse(t, "spec: {containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}")
	for _, order := range [][]Fragment{{sizes, log}, {log, sizes}} {
		r := lawful(t, bare, order...)
		if got, want := text(at(t, r.Pod, "spec", "resources")), `{"limits":{"cpu":1},"requests":{"cpu":1}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	large := fragment(t, "log", "spec: {containers: [{name: log, image: s, resources: {requests: {cpu: 800m}}}]}")
	const want = "template sizes sets spec.resources.requests.cpu to 1, and with all sidecars 1300m is needed there; set it to 1300m at least in the template"
	if _, err := mergeInto(t, bare, sizes, large); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// From 1.37 on the API server derives what a pod as a whole lacks once all webhooks have
// answered. What it makes because of a sidecar is hidden from the base all the same.
func TestWhatTheAPIServerDerivesAfterwardsIsNotTheAuthors(t *testing.T) {
	for name, c := range map[string]struct{ pod, fragment, field, key, derived string }{
		"a request, because a sidecar requests it": {
			"{resources: {requests: {cpu: 500m}}, containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}",
			"{containers: [{name: s, image: s, resources: {requests: {memory: 10Mi}}}]}", "requests", "memory", "10Mi"},
		"a limit, since all containers have one: as large as the request": {
			"{resources: {requests: {cpu: 1}}, containers: [{name: web, image: x, resources: {limits: {cpu: 500m}, requests: {cpu: 500m}}}]}",
			"{containers: [{name: s, image: s, resources: {limits: {cpu: 200m}, requests: {cpu: 100m}}}]}", "limits", "cpu", "1100m"},
		"a limit, since all containers have one: their sum": {
			"{resources: {requests: {cpu: 600m}}, containers: [{name: web, image: x, resources: {limits: {cpu: 2}, requests: {cpu: 500m}}}]}",
			"{containers: [{name: s, image: s, resources: {limits: {cpu: 500m}, requests: {cpu: 100m}}}]}", "limits", "cpu", "2500m"},
		"a request below a limit": {
			"{resources: {limits: {cpu: 2}}, containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}",
			"{containers: [{name: s, image: s, resources: {requests: {cpu: 100m}}}]}", "requests", "cpu", "600m"},
	} {
		t.Run(name, func(t *testing.T) {
			author := parse(t, "spec: "+c.pod)
			created := lawful(t, parse(t, "spec: "+c.pod), fragment(t, "t", "spec: "+c.fragment)).Pod
			derive(created)
			if got := at(t, created, "spec", "resources", c.field, c.key); got != c.derived {
				t.Fatalf("the API server makes %s of %s in\n%s", text(got), c.derived, text(created))
			}
			if base := recordOf(t, created).Base(created); text(base) != text(author) {
				t.Errorf("base %s\nwant %s", text(base), text(author))
			}
			if again := mustMerge(t, created, fragment(t, "t", "spec: "+c.fragment)); len(again.Operations) > 0 {
				t.Errorf("a second call makes operations: %s", text(again.Operations))
			}
		})
	}
}

// derive does to a pod what Kubernetes 1.37 does before it stores one.
func derive(pod map[string]any) {
	spec := objectOf(pod["spec"])
	put := func(field string, derived map[string]resource.Quantity) {
		resources := objectOf(spec["resources"])
		if resources[field] == nil && len(derived) > 0 {
			resources[field] = map[string]any{}
		}
		for key, q := range derived {
			if values := objectOf(resources[field]); values[key] == nil {
				values[key] = q.String()
			}
		}
	}
	limits := podschema.DerivedLimits(spec)
	put("requests", podschema.DerivedRequests(spec, map[string]bool{"cpu": true, "memory": true}))
	put("limits", limits)
}
