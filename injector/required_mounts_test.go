package injector

import (
	"strings"
	"testing"
)

// copied gives each app an agent, which an init container copies into a volume.
const copied = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  required: true
  verify: {allow: {volumeMounts: [/agent/conf/*, /shared]}}
  inject:
    spec:
      initContainers:
      - {name: copy, $position: First, image: "agent:1", volumeMounts: [{name: agent, mountPath: /to}]}
      containers:
      - {$each: App, volumeMounts: [{name: agent, mountPath: /agent, readOnly: true}]}
      volumes:
      - {name: agent, emptyDir: {}}
`

// mountingPod is a pod whose app, init container and volumes are these.
func mountingPod(app, init, volumes string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1"` + app + `}],"initContainers":[` + init + `],"volumes":[` + volumes + `]}}`
}

func TestNothingHidesOrRewritesWhatARequiredTemplateMounts(t *testing.T) {
	const own = `{"name":"own","configMap":{"name":"own"}}`
	const agent = `{"name":"agent","emptyDir":{}}`
	app := func(path, more string) string {
		return mountingPod(`,"volumeMounts":[{"name":"own","mountPath":"`+path+`"`+more+`}]`, "", own)
	}
	set := requiredSet(t, audit, copied)
	for why, c := range map[string]struct{ pod, says string }{
		"a file of the agent": {app("/agent/agent.jar", `,"subPath":"agent.jar"`),
			"spec.containers[name=app].volumeMounts[mountPath=/agent/agent.jar] is below /agent, and would hide a part of the template's mount; mount it elsewhere (spec.verify.allow.volumeMounts of the template can allow the path)"},
		"a subPathExpr":            {app("/agent/agent.jar", `,"subPathExpr":"$(A)"`), "is below /agent"},
		"a directory of the agent": {app("/agent/lib/x", ""), "is below /agent"},
		"another spelling":         {app("/agent/../agent//./lib/", ""), "is below /agent"},
		"a path without its slash": {app("agent/lib", ""), "is below /agent"},
		"the mount itself, spelled otherwise": {app("/agent/", ""),
			`spec.containers[name=app].volumeMounts[mountPath=/agent] is hidden by a mount at "/agent/"`},
		"the root":                    {app("/", ""), "is above /agent"},
		"the root, spelled otherwise": {app("/agent/..", ""), "is above /agent"},
		"a block device": {mountingPod(`,"volumeDevices":[{"name":"own","devicePath":"/agent/agent.jar"}]`, "", `{"name":"own","persistentVolumeClaim":{"claimName":"own"}}`),
			"spec.containers[name=app].volumeDevices[devicePath=/agent/agent.jar] is below /agent"},
		"the file for the container's last words": {mountingPod(`,"terminationMessagePath":"/agent/agent.jar"`, "", ""),
			"spec.containers[name=app].terminationMessagePath is below /agent, and would hide a part"},
		"that file in place of the mount":    {mountingPod(`,"terminationMessagePath":"/agent/"`, "", ""), `mountPath=/agent] is hidden by a mount at "/agent/"`},
		"that file where it is by default":   {mountingPod(`,"terminationMessagePath":"/dev/termination-log"`, "", ""), ""},
		"that file where it may be":          {mountingPod(`,"terminationMessagePath":"/agent/conf/log"`, "", ""), ""},
		"beside it":                          {app("/agentless", ""), ""},
		"above it":                           {mountingPod(`,"volumeMounts":[{"name":"own","mountPath":"/agents"}]`, "", own), ""},
		"where the template allows it":       {app("/agent/conf/a", ""), ""},
		"below where the template allows it": {app("/agent/conf/a/b", ""), "is below /agent"},
		"an allowed path spelled otherwise":  {app("/agent/conf/a/", ""), "is below /agent"},
		"another container's mount":          {mountingPod("", `{"name":"mine","image":"x:1","volumeMounts":[{"name":"own","mountPath":"/agent/x"}]}`, own), ""},
		"an init container of the pod": {mountingPod("", `{"name":"mine","image":"x:1","volumeMounts":[{"name":"agent","mountPath":"/x"}]}`, agent),
			"spec.initContainers[name=mine].volumeMounts[mountPath=/x] mounts the volume agent, which is the template's; mount another volume (spec.verify.allow.volumeMounts of the template can allow the path)"},
		"the app, a second time":                      {mountingPod(`,"volumeMounts":[{"name":"agent","mountPath":"/x","subPath":"y"}]`, "", agent), "spec.containers[name=app].volumeMounts[mountPath=/x] mounts the volume agent"},
		"the app, as a device":                        {mountingPod(`,"volumeDevices":[{"name":"agent","devicePath":"/dev/x"}]`, "", agent), "spec.containers[name=app].volumeDevices[devicePath=/dev/x] mounts the volume agent"},
		"an init container where the template allows": {mountingPod("", `{"name":"mine","image":"x:1","volumeMounts":[{"name":"agent","mountPath":"/shared"}]}`, agent), ""},
		"the app, as the template does":               {mountingPod(`,"volumeMounts":[{"name":"agent","mountPath":"/agent","readOnly":true}]`, "", agent), ""},
	} {
		pod := podOf(t, c.pod)
		r := Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: set}
		out, err := NewPipeline(Config{}).Inject(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		// Another webhook could bring the mount after Pillion.
		final := patched(t, injectRequired(t, set, podOf(t, plainPod)), `[{"op":"remove","path":"/metadata/annotations"},{"op":"remove","path":"/spec/containers/1"}]`)
		for webhook, got := range map[string]string{"injected": out.Message, "verified": verifyRequired(t, set, Request{Operation: "CREATE", Pod: graft(final, pod)}, nil)} {
			wantSays(t, why+", "+webhook, got, c.says)
		}
	}
}

// graft puts the mounts, init containers and volumes of another pod into an injected one.
func graft(injected, from map[string]any) map[string]any {
	spec, other := injected["spec"].(map[string]any), from["spec"].(map[string]any)
	app, theirs := itemsOf(injected, "containers")[0], itemsOf(from, "containers")[0]
	for _, list := range []string{"volumeMounts", "volumeDevices"} {
		for _, v := range listOfAny(theirs[list]) {
			if v.(map[string]any)["mountPath"] != "/agent" {
				app[list] = append(listOfAny(app[list]), v)
			}
		}
	}
	if messages := theirs["terminationMessagePath"]; messages != nil {
		app["terminationMessagePath"] = messages
	}
	spec["initContainers"] = append(listOfAny(spec["initContainers"]), listOfAny(other["initContainers"])...)
	for _, v := range listOfAny(other["volumes"]) {
		if nameOf(v.(map[string]any)) != "agent" {
			spec["volumes"] = append(listOfAny(spec["volumes"]), v)
		}
	}
	return injected
}

// The API server mounts the token into every container that has no mount there.
func TestTheTokenStandsBelowARequiredMount(t *testing.T) {
	set := requiredSet(t, audit, strings.ReplaceAll(copied, "mountPath: /agent", "mountPath: /var/run"))
	pod := podOf(t, mountingPod(`,"volumeMounts":[`+tokenMount+`]`, "", tokenVolume))
	wantSays(t, "the API server's volume", verifyRequired(t, set, Request{Operation: "CREATE", Pod: injectRequired(t, set, pod)}, nil), "")
	for _, volume := range []string{`{"name":"kube-api-access-x7k2p","emptyDir":{}}`, strings.Replace(tokenVolume, `"path":"token"`, `"path":"token","audience":"vault"`, 1)} {
		out := injectIn(t, shop, set, podOf(t, mountingPod(`,"volumeMounts":[`+tokenMount+`]`, "", volume)))
		wantSays(t, volume, out.Message, "is below /var/run")
	}
}

func TestARequiredTemplateMayReplaceAllMounts(t *testing.T) {
	set := requiredSet(t, audit, strings.NewReplacer(
		"volumeMounts: [{name: agent, mountPath: /agent, readOnly: true}]", "volumeMounts: [{$patch: replace}, {name: agent, mountPath: /agent}, {name: agent, mountPath: /agent/own}]",
		"      volumes:\n", "      volumes:\n      - $patch: replace\n").Replace(copied))
	injected := injectRequired(t, set, podOf(t, mountingPod(`,"volumeMounts":[{"name":"own","mountPath":"/agent/x"}]`, "", `{"name":"own","emptyDir":{}}`)))
	wantSays(t, "as injected", verifyRequired(t, set, Request{Operation: "CREATE", Pod: injected}, nil), "")
	mount := `{"op":"add","path":"/spec/containers/0/volumeMounts/-","value":{"name":"agent","mountPath":"/x"}}`
	if got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: patched(t, injected, `[`+mount+`]`)}, nil); got == "" {
		t.Error("a mount that came back is accepted")
	}
}

// A volume of sources gathers those of several templates. A pod's own could overrule a file.
func TestAPodAddsNothingToAProjectedVolumeOfARequiredTemplate(t *testing.T) {
	const projected = `{projected: {sources: [{serviceAccountToken: {path: token, audience: vault}}, {configMap: {name: conf}}]}`
	set := requiredSet(t, audit, strings.Replace(copied, "{name: agent, emptyDir: {}}", "{name: agent, "+projected[1:]+"}", 1))
	const token, conf = `{"serviceAccountToken":{"path":"token","audience":"vault","expirationSeconds":3600}}`, `{"configMap":{"name":"conf"}}`
	volume := func(more string, sources ...string) string {
		return mountingPod("", "", `{"name":"agent","projected":{"sources":[`+strings.Join(sources, ",")+`]`+more+`}}`)
	}
	const conflict = "spec.volumes[name=agent] is {"
	for why, c := range map[string]struct{ pod, says string }{
		"as rendered":       {volume("", token, conf), ""},
		"with the defaults": {volume(`,"defaultMode":420`, token, conf), ""},
		"one more":          {volume("", token, conf, `{"secret":{"name":"own"}}`), conflict},
		"only its own":      {volume("", `{"secret":{"name":"own"}}`), conflict},
		"in another order":  {volume("", conf, token), ""},
		"another mode":      {volume(`,"defaultMode":0`, token, conf), conflict},
		"another time":      {volume("", strings.Replace(token, "3600", "600", 1), conf), conflict},
	} {
		out := injectIn(t, shop, set, podOf(t, c.pod))
		wantSays(t, why, out.Message, c.says)
	}
}
