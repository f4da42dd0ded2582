package templates

import (
	"strings"
	"testing"
)

// byVersion mounts an image volume where there are such, and else a copy by an init container.
// Its own part is shared: nothing of it depends on the pod.
const byVersion = `parameters: [{name: image, type: image, default: "agent:1"}]
inject:
  spec:
    volumes:
    - {$if: "kubernetes.minor >= 35", name: agent, image: {reference: "${params.image}"}}
    - {$if: "kubernetes.minor < 35", name: agent, emptyDir: {}}
    initContainers:
    - {$if: "kubernetes.minor < 35", name: agent, image: "${params.image}", args: ["${string(kubernetes.major) + '.' + string(kubernetes.minor)}"], volumeMounts: [{name: agent, mountPath: /to}]}`

func TestATemplateMayAskForTheVersionOfKubernetes(t *testing.T) {
	tmpl, cache := compiled(t, byVersion), new(Cache)
	render := func(tmpl *Template, minor int) map[string]any {
		v := KubernetesVersion{}
		if minor > 0 {
			v = KubernetesVersion{Major: 1, Minor: minor}
		}
		return rendered(t, tmpl, Input{Pod: onePod(t, nil), Kubernetes: v, Cache: cache}).Fragment
	}
	const volume = `{"spec":{"volumes":[{"name":"agent","image":{"reference":"agent:1"}}]}}`
	const copied = `{"spec":{"volumes":[{"name":"agent","emptyDir":{}}],"initContainers":[{"name":"agent","image":"agent:1","args":["1.34"],"volumeMounts":[{"name":"agent","mountPath":"/to"}]}]}}`
	// The cache has what was made for the version before, and must not give it.
	for range 3 {
		wantFragment(t, render(tmpl, 34), copied)
		wantFragment(t, render(tmpl, 35), volume)
	}
	wantFragment(t, render(tmpl, 0), volume) // the newest that is known
	older := compiledWith(t, manifestOf(byVersion), Options{Kubernetes: KubernetesVersion{Major: 1, Minor: 34}})
	wantFragment(t, render(older, 0), copied)
	if older.Hash() != tmpl.Hash() {
		t.Error("the hash depends on the version")
	}
}

func TestBothSidesOfAQuestionForTheVersionAreTried(t *testing.T) {
	_, _, err := Compile(manifestOf("inject: {spec: {nodeName: \"${kubernetes.minor >= 35 ? 'a' : pod.spec.hostname}\"}}"), Options{})
	if err == nil || !strings.Contains(err.Error(), "fails for a minimal pod on Kubernetes 1.30: no such key: hostname") {
		t.Errorf("%v", err)
	}
	_, _, err = Compile(manifestOf("inject: {spec: {nodeName: \"${kubernetes.minro}\"}}"), Options{})
	if err == nil || !strings.Contains(err.Error(), "did you mean minor?") {
		t.Errorf("%v", err)
	}
}

func TestVersionsAreReadAsServersWriteThem(t *testing.T) {
	for text, want := range map[string]string{"1.36": "1.36", "v1.36.3": "1.36", "1.34+": "1.34", "v1.35.2-gke.100": "1.35", "1.33.1+k3s1": "1.33", "2.0": "2.0"} {
		if v, err := ParseKubernetesVersion(text); err != nil || v.String() != want {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "1", "36", "1.x", "0.0", "1.36 ", "-1.36", "1.99999", "latest"} {
		if v, err := ParseKubernetesVersion(text); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
	if v := NewestKubernetes(); v.Major != 1 || v.Minor < 36 {
		t.Errorf("the newest is %v", v)
	}
}
