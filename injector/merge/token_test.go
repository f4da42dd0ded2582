package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// plugin does to a pod what the API server's ServiceAccount plugin does (mountServiceAccountToken
// in plugin/pkg/admission/serviceaccount), for an account that automounts its token or
// does not. It returns a copy.
func plugin(t testing.TB, pod map[string]any, automount bool) map[string]any {
	pod = parse(t, string(podschema.Encode(pod)))
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
	volumes, _ := spec["volumes"].([]any)
	name := "kube-api-access-new42"
	have := slices.IndexFunc(volumes, func(v any) bool { return strings.HasPrefix(objectOf(v)["name"].(string), "kube-api-access-") })
	if have >= 0 {
		name = objectOf(volumes[have])["name"].(string)
	}
	needed := false
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			mounts, _ := objectOf(c)["volumeMounts"].([]any)
			if !slices.ContainsFunc(mounts, func(m any) bool {
				return objectOf(m)["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
			}) {
				objectOf(c)["volumeMounts"] = append(mounts, map[string]any{"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
				needed = true
			}
		}
	}
	if have < 0 && needed {
		spec["volumes"] = append(volumes, parse(t, tokenVolumeNamed(name)))
	}
	return pod
}

func tokenVolumeNamed(name string) string {
	return "{name: " + name + `, projected: {defaultMode: 420, sources: [
		{serviceAccountToken: {expirationSeconds: 3607, path: token}},
		{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
		{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}`
}

const atToken = "mountPath: /var/run/secrets/kubernetes.io/serviceaccount"

// tokenCases are pods and templates, and what the sidecar "side" mounts where the token
// goes. Once reports that the plugin finds nothing to add afterwards.
var tokenCases = map[string]struct {
	pod, fragment string
	off           bool // the service account does not automount its token
	mounts        string
	once          bool
}{
	"an ordinary pod":               {pod: "containers: [{name: web}]", mounts: "kube-api-access-new42", once: true},
	"an init container":             {pod: "initContainers: [{name: own}], containers: [{name: web}]", fragment: "initContainers: [{name: side, image: x}]", mounts: "kube-api-access-new42", once: true},
	"a sidecar with mounts":         {pod: "containers: [{name: web}]", fragment: "containers: [{name: side, image: x, volumeMounts: [{name: a, mountPath: /a}]}], volumes: [{name: a, emptyDir: {}}]", mounts: "kube-api-access-new42", once: true},
	"a sidecar in front":            {pod: "containers: [{name: web}]", fragment: "containers: [{name: side, image: x, $position: First}]", mounts: "kube-api-access-new42", once: true},
	"a mount of the template's":     {pod: "containers: [{name: web}]", fragment: "containers: [{name: side, image: x, volumeMounts: [{name: a, " + atToken + "}]}], volumes: [{name: a, emptyDir: {}}]", mounts: "a", once: true},
	"the same with a slash":         {pod: "containers: [{name: web}]", fragment: "containers: [{name: side, image: x, volumeMounts: [{name: a, " + atToken + "/}]}], volumes: [{name: a, emptyDir: {}}]", mounts: "kube-api-access-new42", once: true},
	"an app's own mount there":      {pod: "containers: [{name: web}, {name: own, volumeMounts: [{name: a, " + atToken + "}]}], volumes: [{name: a, emptyDir: {}}]", mounts: "kube-api-access-new42", once: true},
	"all apps have their own":       {pod: "containers: [{name: own, volumeMounts: [{name: a, " + atToken + "}]}], volumes: [{name: a, emptyDir: {}}]"},
	"the pod wants no token":        {pod: "containers: [{name: web}], automountServiceAccountToken: false", once: true},
	"its account gives none":        {pod: "containers: [{name: web}]", off: true, once: true},
	"the pod wants one all alone":   {pod: "containers: [{name: web}], automountServiceAccountToken: true", off: true, mounts: "kube-api-access-new42", once: true},
	"the template turns it off":     {pod: "containers: [{name: web}]", fragment: "automountServiceAccountToken: false, containers: [{name: side, image: x}]", once: true},
	"the template turns it on":      {pod: "containers: [{name: web}], automountServiceAccountToken: false", fragment: "automountServiceAccountToken: true, containers: [{name: side, image: x}]"},
	"another account":               {pod: "containers: [{name: web}]", fragment: "serviceAccountName: other, containers: [{name: side, image: x}]"},
	"another account, turned on":    {pod: "containers: [{name: web}]", fragment: "serviceAccountName: other, automountServiceAccountToken: true, containers: [{name: side, image: x}]", mounts: "kube-api-access-new42", once: true},
	"a container without the token": {pod: "containers: [{name: web}], volumes: [" + tokenVolumeNamed("kube-api-access-own") + "]", off: true, once: true},
	"a token of the author's own": {pod: "containers: [{name: web}, {name: own, volumeMounts: [{name: kube-api-access-own, readOnly: true, " + atToken + "}]}], volumes: [" + tokenVolumeNamed("kube-api-access-own") + "]",
		off: true, once: true},
	"a tenant's volume of such a name":         {pod: "containers: [{name: web}], volumes: [{name: kube-api-access-a, emptyDir: {}}]"},
	"a tenant's volume without a token":        {pod: "containers: [{name: web}], volumes: [{name: kube-api-access-a, emptyDir: {}}]", off: true, once: true},
	"a tenant's file in the token's":           {pod: "containers: [{name: web}], volumes: [" + strings.Replace(tokenVolumeNamed("kube-api-access-a"), "sources: [", "sources: [{secret: {name: own}},", 1) + "]"},
	"a tenant's volume behind the token's":     {pod: "containers: [{name: web}], volumes: [" + tokenVolumeNamed("kube-api-access-a") + ", {name: kube-api-access-b, emptyDir: {}}]", mounts: "kube-api-access-a", once: true},
	"a template's volume in front":             {pod: "containers: [{name: web}]", fragment: "volumes: [{name: kube-api-access-a, $position: First, emptyDir: {}}], containers: [{name: side, image: x}]"},
	"a template's volume behind":               {pod: "containers: [{name: web}]", fragment: "volumes: [{name: kube-api-access-a, emptyDir: {}}], containers: [{name: side, image: x}]", mounts: "kube-api-access-new42", once: true},
	"an author's container, replaced":          {pod: "containers: [{name: web}, {name: side, image: own}]", fragment: "containers: [{name: side, $patch: replace, image: x}]", mounts: "kube-api-access-new42", once: true},
	"all init containers replaced":             {pod: "initContainers: [{name: own}], containers: [{name: web}]", fragment: "initContainers: [{$patch: replace}, {name: side, image: x}]", mounts: "kube-api-access-new42", once: true},
	"nothing but an extension":                 {pod: "containers: [{name: side}]", fragment: "containers: [{name: side, env: [{name: A, value: x}]}]", mounts: "kube-api-access-new42", once: true},
	"an extension takes the token from an app": {pod: "containers: [{name: side}]", fragment: "containers: [{name: side, volumeMounts: [{" + atToken + ", $patch: delete}]}]"},
}

// sideOf is the container "side" of a pod.
func sideOf(pod map[string]any) map[string]any {
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := objectOf(pod["spec"])[list].([]any)
		for _, c := range containers {
			if objectOf(c)["name"] == "side" {
				return objectOf(c)
			}
		}
	}
	return nil
}

func TestASidecarMountsTheTokenAsTheServiceAccountPluginWould(t *testing.T) {
	for why, c := range tokenCases {
		t.Run(why, func(t *testing.T) {
			pod := plugin(t, parse(t, "{metadata: {name: p}, spec: {"+c.pod+"}}"), !c.off)
			if c.fragment == "" {
				c.fragment = "containers: [{name: side, image: x}]"
			}
			fragment := parse(t, "{spec: {"+c.fragment+"}}")
			before := string(podschema.Encode(pod)) + string(podschema.Encode(fragment))
			plan, err := Merge(t.Context(), pod, []Fragment{{Template: "t", Object: fragment, OnConflict: Overwrite}}, statusKey)
			if err != nil {
				t.Fatal(err)
			}
			if after := string(podschema.Encode(pod)) + string(podschema.Encode(fragment)); after != before {
				t.Errorf("the pod or the fragment was changed to %s", after)
			}
			mounted := ""
			mounts, _ := sideOf(plan.Pod)["volumeMounts"].([]any)
			for _, m := range mounts {
				if objectOf(m)["mountPath"] == tokenPath {
					mounted += objectOf(m)["name"].(string)
				}
			}
			if mounted != c.mounts {
				t.Errorf("the sidecar mounts %q where the token goes, want %q", mounted, c.mounts)
			}
			again := plugin(t, plan.Pod, !c.off)
			if diff := cmp.Diff(plan.Pod, again); (diff == "") != c.once {
				t.Errorf("the plugin finds nothing to add: %t, want %t\n%s", diff == "", c.once, diff)
			}
		})
	}
}

// A template that extends another one's sidecar counts before the token, which is last.
func TestTheTokensMountIsTheLastOne(t *testing.T) {
	pod := plugin(t, parse(t, "{spec: {containers: [{name: web}]}}"), true)
	plan, err := Merge(t.Context(), pod, []Fragment{
		{Template: "a", Object: parse(t, "{spec: {containers: [{name: side, image: x, volumeMounts: [{name: a, mountPath: /a}]}]}}")},
		{Template: "b", Object: parse(t, "{spec: {containers: [{name: side, volumeMounts: [{name: b, mountPath: /b}]}]}}")},
	}, statusKey)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, m := range sideOf(plan.Pod)["volumeMounts"].([]any) {
		paths = append(paths, objectOf(m)["mountPath"].(string))
	}
	if got, want := strings.Join(paths, " "), "/a /b "+tokenPath; got != want {
		t.Errorf("mounts at %s, want %s", got, want)
	}
	if desired := plan.Root.Child("spec").Child("containers").Child("name=side").Desired(); mountsAtToken(objectOf(desired.Value)["volumeMounts"].([]any)) {
		t.Error("the token's mount counts as what the template itself wants, so a pod without it would not be what a required template wants")
	}
}

// Whatever volumes and mounts a pod and a template have: a mount that the plan adds is one
// that the plugin would add, at the same place.
func TestThePluginWouldAddEveryTokenThatAPlanMounts(t *testing.T) {
	mountLists := []string{"[]", "[]", "[{name: a, mountPath: /a}]", "[{name: a, " + atToken + "}]", "[{name: a, " + atToken + "/}]", "[{name: kube-api-access-own, readOnly: true, " + atToken + "}]"}
	volumeLists := []string{"[{name: a, emptyDir: {}}]", "[{name: a, emptyDir: {}}]", "[{name: kube-api-access-b, emptyDir: {}}, {name: a, emptyDir: {}}]",
		"[{name: a, emptyDir: {}}, " + tokenVolumeNamed("kube-api-access-own") + "]"}
	settings := []string{"", "", "", ", automountServiceAccountToken: true", ", automountServiceAccountToken: false", ", serviceAccountName: other"}
	one := func(t *rapid.T, label string, from []string) string { return rapid.SampledFrom(from).Draw(t, label) }
	added, left := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		automounts := rapid.Bool().Draw(rt, "the account automounts")
		pod := plugin(t, parse(t, fmt.Sprintf("{spec: {initContainers: [{name: i, volumeMounts: %s}], containers: [{name: c, volumeMounts: %s}], volumes: %s%s}}",
			one(rt, "init", mountLists), one(rt, "app", mountLists), one(rt, "volumes", volumeLists), one(rt, "pod", settings))), automounts)
		position := one(rt, "position", []string{"First", "Last"})
		fragment := parse(t, fmt.Sprintf("{spec: {%s: [{name: side, image: x, $position: %s, volumeMounts: %s}, {name: c, env: [{name: A, value: x}]}], volumes: [{name: kube-api-access-t, $position: %s, emptyDir: {}}]%s}}",
			"containers", position, one(rt, "sidecar", mountLists), position, one(rt, "template", settings)))
		plan, err := Merge(t.Context(), pod, []Fragment{{Template: "t", Object: fragment, OnConflict: Overwrite}}, statusKey)
		if err != nil {
			rt.Fatal(err)
		}
		// The plugin is asked about the pod without what the plan added.
		without := parse(t, string(podschema.Encode(plan.Pod)))
		side, own := sideOf(without), objectOf(fragment["spec"].(map[string]any)["containers"].([]any)[0])
		side["volumeMounts"] = own["volumeMounts"]
		if cmp.Equal(without, plan.Pod) {
			left++
			return
		}
		added++
		// The account that automounts nothing cannot be told from one that does, if the
		// author mounted the token into every container.
		if diff := cmp.Diff(sideOf(plugin(t, without, true)), sideOf(plan.Pod)); diff != "" {
			rt.Fatalf("the plugin would mount something else (-plugin +plan)\n%s\npod %s", diff, podschema.Encode(pod))
		}
		if objectOf(plan.Pod["spec"])["automountServiceAccountToken"] == false {
			rt.Fatalf("the pod wants no token: %s", podschema.Encode(plan.Pod))
		}
		if !automounts && !mountedByPlugin(objectOf(pod["spec"]), "kube-api-access-own") && objectOf(pod["spec"])["automountServiceAccountToken"] != true {
			rt.Fatalf("the account gives no token: %s", podschema.Encode(plan.Pod))
		}
	})
	if added == 0 || left == 0 {
		t.Errorf("%d plans with a token, %d without: the law is not tried", added, left)
	}
}
