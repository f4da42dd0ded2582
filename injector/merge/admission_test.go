package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

func items(object map[string]any, list string) []map[string]any {
	var all []map[string]any
	values, _ := object[list].([]any)
	for _, v := range values {
		all = append(all, v.(map[string]any))
	}
	return all
}

// plugin does to a pod what the API server's ServiceAccount plugin does (mountServiceAccountToken in
// plugin/pkg/admission/serviceaccount), for an account that automounts its token or does not. It returns a copy.
func plugin(t testing.TB, pod map[string]any, automount bool) map[string]any {
	pod = fragmenttest.Decode(t, string(podschema.Encode(pod)))
	spec := pod["spec"].(map[string]any)
	if own, ok := spec["automountServiceAccountToken"].(bool); ok {
		automount = own
	}
	if spec["serviceAccountName"] == nil {
		spec["serviceAccountName"] = "default"
	}
	if !automount {
		return pod
	}
	volumes := items(spec, "volumes")
	name, needed := "kube-api-access-new42", false
	have := slices.IndexFunc(volumes, func(v map[string]any) bool { return strings.HasPrefix(v["name"].(string), "kube-api-access-") })
	if have >= 0 {
		name = volumes[have]["name"].(string)
	}
	for _, c := range slices.Concat(items(spec, "initContainers"), items(spec, "containers")) {
		if !slices.ContainsFunc(items(c, "volumeMounts"), func(m map[string]any) bool { return m["mountPath"] == merge.TokenPath }) {
			mounts, _ := c["volumeMounts"].([]any)
			c["volumeMounts"], needed = append(mounts, map[string]any{"name": name, "readOnly": true, "mountPath": merge.TokenPath}), true
		}
	}
	if have < 0 && needed {
		all, _ := spec["volumes"].([]any)
		spec["volumes"] = append(all, fragmenttest.Decode(t, tokenVolume(name)))
	}
	return pod
}

func tokenVolume(name string) string {
	return "{name: " + name + `, projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}, {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
		{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}`
}

const atToken = "mountPath: " + merge.TokenPath

// tokenOf returns what the sidecar "side" mounts where the token goes.
func tokenOf(pod map[string]any) string {
	names := ""
	spec := pod["spec"].(map[string]any)
	for _, c := range slices.Concat(items(spec, "initContainers"), items(spec, "containers")) {
		for _, m := range items(c, "volumeMounts") {
			if c["name"] == "side" && m["mountPath"] == merge.TokenPath {
				names += m["name"].(string)
			}
		}
	}
	return names
}

// Whatever volumes and mounts a pod and a template have: a token that is mounted is one that the plugin would mount.
func TestThePluginWouldMountEveryTokenThatASidecarGets(t *testing.T) {
	mounts := []string{"[]", "[]", "[{name: a, mountPath: /a}]", "[{name: a, " + atToken + "}]", "[{name: kube-api-access-own, readOnly: true, " + atToken + "}]"}
	volumes := []string{"[{name: a, emptyDir: {}}]", "[{name: kube-api-access-b, emptyDir: {}}, {name: a, emptyDir: {}}]", "[{name: a, emptyDir: {}}, " + tokenVolume("kube-api-access-own") + "]"}
	settings := []string{"", "", ", automountServiceAccountToken: true", ", automountServiceAccountToken: false", ", serviceAccountName: other"}
	mounted := 0
	rapid.Check(t, func(rt *rapid.T) {
		one := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(rt, label) }
		automounts := rapid.Bool().Draw(rt, "the account automounts")
		pod := plugin(t, fragmenttest.Decode(t, fmt.Sprintf("{spec: {containers: [{name: c, volumeMounts: %s}, {name: d, volumeMounts: %s}], volumes: %s%s}}", one("app", mounts), one("second", mounts), one("volumes", volumes), one("pod", settings))), automounts)
		o, err := mergeAll(t, pod, named("spec: {containers: [{name: side, image: x}]"+one("template", settings)+"}"))
		if err != nil {
			return // the template and the pod name two accounts
		}
		token := tokenOf(o.pod)
		if token == "" {
			return
		}
		mounted++
		spec := fragmenttest.Decode(t, string(podschema.Encode(o.pod)))
		for _, c := range items(spec["spec"].(map[string]any), "containers") {
			if c["name"] == "side" {
				delete(c, "volumeMounts")
			}
		}
		if would := tokenOf(plugin(t, spec, true)); would != token || o.pod["spec"].(map[string]any)["automountServiceAccountToken"] == false {
			rt.Fatalf("it mounts %s, the plugin would mount %q in %s", token, would, podschema.Encode(o.pod))
		}
	})
	if mounted == 0 {
		t.Error("no token was mounted")
	}
}

func TestTheResourcesOfAPodFollowItsContainers(t *testing.T) {
	const native = "initContainers: [{name: s, image: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}]"
	for name, c := range map[string]struct{ pod, fragment, add string }{
		"what the API server made of the containers' requests it makes anew": {"{limits: {cpu: 2}, requests: {cpu: 500m}}", native, `{"limits":{"cpu":"2100m"},"requests":{}}`},
		"an author's own with room":             {"{limits: {cpu: 2}, requests: {cpu: 1}}", native, `{"limits":{"cpu":"2100m"},"requests":{"cpu":"1100m"}}`},
		"no more than before":                   {"{limits: {cpu: 2}, requests: {cpu: 500m}}", "initContainers: [{name: s, image: s, resources: {requests: {cpu: 400m}}}]", `{"limits":{"cpu":2},"requests":{"cpu":"500m"}}`},
		"without limits nothing derives":        {"{requests: {cpu: 500m}}", native, `{"requests":{"cpu":"600m"}}`},
		"a limit goes before a request":         {"{limits: {cpu: 2}, requests: {cpu: 1}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 300m}, requests: {cpu: 100m}}}]", `{"limits":{"cpu":"2300m"},"requests":{"cpu":"1100m"}}`},
		"a limit stands for a request":          {"{requests: {cpu: 500m}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 300m}}}]", `{"requests":{"cpu":"800m"}}`},
		"only what the pod names":               {"{requests: {cpu: 500m}}", "containers: [{name: s, image: s, resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}}]", `{"requests":{"cpu":"500m"}}`},
		"an init container that needs more":     {"{limits: {cpu: 1}, requests: {cpu: 500m}}", "initContainers: [{name: s, image: s, resources: {requests: {cpu: 3}}}]", `{"limits":{"cpu":"3"},"requests":{}}`},
		"an init container beside a native one": {"{requests: {cpu: 500m}}", "initContainers: [{name: m, image: s, restartPolicy: Always, resources: {requests: {cpu: 200m}}}, {name: s, image: s, resources: {requests: {cpu: 3}}}]", `{"requests":{"cpu":"3200m"}}`},
		"more for a container of the pod's":     {"{requests: {cpu: 500m}}", "containers: [{name: web, resources: {requests: {cpu: 700m}, $onConflict: Overwrite}}]", `{"requests":{"cpu":"700m"}}`},
		"less for a container of the pod's":     {"{requests: {cpu: 500m}}", "containers: [{name: web, resources: {requests: {cpu: 100m}, $onConflict: Overwrite}}]", `{"requests":{"cpu":"500m"}}`},
		"huge pages":                            {"{limits: {hugepages-2Mi: 4Mi, memory: 1Gi}, requests: {hugepages-2Mi: 4Mi, memory: 1Gi}}", "containers: [{name: s, image: s, resources: {limits: {hugepages-2Mi: 2Mi, memory: 1Mi}}}]", `{"limits":{"hugepages-2Mi":"6Mi","memory":"1025Mi"},"requests":{"memory":"1025Mi"}}`},
		"a single container above the limit":    {"{limits: {cpu: 1}, requests: {cpu: 1}}", "containers: [{name: s, image: s, resources: {limits: {cpu: 3}, requests: {cpu: 100m}}}]", `{"limits":{"cpu":"4"},"requests":{"cpu":"1100m"}}`},
	} {
		pod := "spec: {resources: " + c.pod + ", initContainers: [{name: i, image: x, resources: {requests: {cpu: 300m}}}], containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}"
		for _, keep := range []bool{false, true} {
			one := named("spec: {" + c.fragment + "}")
			one[0].KeepPodResources = keep
			o, err := inject(t, fragmenttest.Decode(t, pod), one)
			got := at(o.pod, "spec", "resources")
			if err != nil || !keep && got != c.add {
				t.Errorf("%s: %v %s, want %s", name, err, got, c.add)
			}
			// Of what the template keeps, only derived requests go, to be derived anew.
			if author := at(fragmenttest.Decode(t, pod), "spec", "resources", "limits"); keep && at(o.pod, "spec", "resources", "limits") != author {
				t.Errorf("%s: kept, the limits are %s, want %s", name, got, author)
			}
		}
	}
}

// What the API server derives because of Pillion's values is none of the base pod, and a second call leaves it.
func TestWhatTheAPIServerDerivesIsNotTheAuthors(t *testing.T) {
	for name, c := range map[string]struct {
		pod, fragment string
		derive        func(spec map[string]any)
	}{
		"requests of limits": {"{containers: [{name: web, image: x}]}", extend("resources: {limits: {cpu: 1, memory: 1Gi}}"), func(spec map[string]any) {
			items(spec, "containers")[0]["resources"].(map[string]any)["requests"] = map[string]any{"cpu": "1", "memory": "1Gi"}
		}},
		"the old name of the service account": {"{containers: []}", "spec: {serviceAccountName: robot}", func(spec map[string]any) { spec["serviceAccount"] = "robot" }},
		"priority of its class": {"{containers: []}", "spec: {priorityClassName: high}", func(spec map[string]any) {
			spec["priority"], spec["preemptionPolicy"] = "1000", "PreemptLowerPriority"
		}},
		"host ports on the host's network": {"{containers: [{name: web, image: x, ports: [{containerPort: 80}]}]}", "spec: {hostNetwork: true}", func(spec map[string]any) {
			items(items(spec, "containers")[0], "ports")[0]["hostPort"] = "80"
		}},
		"a request of the pod": {"{resources: {limits: {cpu: 2}}, containers: [{name: web, image: x, resources: {requests: {cpu: 500m}}}]}", "spec: {containers: [{name: s, image: s, resources: {requests: {cpu: 100m}}}]}", derivePodResources},
		"a limit of the pod": {"{resources: {requests: {cpu: 600m}}, containers: [{name: web, image: x, resources: {limits: {cpu: 2}, requests: {cpu: 500m}}}]}",
			"spec: {containers: [{name: s, image: s, resources: {limits: {cpu: 500m}, requests: {cpu: 100m}}}]}", derivePodResources},
	} {
		pod := fragmenttest.Decode(t, "spec: "+c.pod)
		o, err := inject(t, pod, named(c.fragment))
		errtest.ExpectNone(t, err)
		created := fragmenttest.Decode(t, string(podschema.Encode(update(t, pod, record.New(), o).Pod)))
		c.derive(created["spec"].(map[string]any))
		rec, err := record.Parse(created)
		errtest.ExpectNone(t, err)
		if base := rec.Base(created); string(podschema.Encode(base)) != string(podschema.Encode(pod)) {
			t.Errorf("%s: the base pod is %s\nwant %s", name, podschema.Encode(base), podschema.Encode(pod))
		}
		again, err := apply.Apply(t.Context(), created, rec, o.wanted)
		if err != nil || len(again.Operations) > 0 {
			t.Errorf("%s: a second call: %v %v", name, err, again.Operations)
		}
	}
}

// A copy of an injected pod has the request that the API server derived from the limit of then. Above the new
// limit it would be refused, so the API server derives it again.
func TestADerivedRequestFollowsTheLimitOfANewVersion(t *testing.T) {
	for name, c := range map[string]struct{ request, want string }{
		"as it was derived":     {"1", `{"limits":{"cpu":"500m"},"requests":{}}`},
		"in another spelling":   {"1000m", `{"limits":{"cpu":"500m"},"requests":{}}`},
		"changed by hand since": {"200m", `{"limits":{"cpu":"500m"},"requests":{"cpu":"200m"}}`},
		"removed by hand":       {"", `{"limits":{"cpu":"500m"}}`},
	} {
		pod := fragmenttest.Decode(t, "spec: {containers: [{name: web, image: x}]}")
		before, err := inject(t, pod, named(extend("resources: {limits: {cpu: 1}}")))
		errtest.ExpectNone(t, err)
		copied := fragmenttest.Decode(t, string(podschema.Encode(update(t, pod, record.New(), before).Pod)))
		if c.request != "" {
			items(copied["spec"].(map[string]any), "containers")[0]["resources"].(map[string]any)["requests"] = map[string]any{"cpu": c.request}
		}
		rec, err := record.Parse(copied)
		errtest.ExpectNone(t, err)
		after, err := mergeAll(t, rec.Base(copied), named(extend("resources: {limits: {cpu: 500m}}")))
		errtest.ExpectNone(t, err)
		if got := at(update(t, copied, rec, after).Pod, "spec", "containers"); !strings.Contains(got, `"resources":`+c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// derivePodResources does to a pod what Kubernetes 1.37 does before it stores one.
func derivePodResources(spec map[string]any) {
	resources := spec["resources"].(map[string]any)
	put := func(field string, derived map[string]resource.Quantity) {
		if resources[field] == nil && len(derived) > 0 {
			resources[field] = map[string]any{}
		}
		for key, q := range derived {
			if values := resources[field].(map[string]any); values[key] == nil {
				values[key] = q.String()
			}
		}
	}
	limits := podschema.DerivedLimits(spec)
	put("requests", podschema.DerivedRequests(spec, map[string]bool{"cpu": true, "memory": true}))
	put("limits", limits)
}
