package templates

import (
	"strings"
	"testing"
)

func TestValidationsSayWhichAreFalseAndWhy(t *testing.T) {
	tmpl := compiled(t, `
parameters: [{name: container, type: string, default: web}]
validations:
- {name: holds, expression: "true", message: never said}
- {name: text, expression: "!pod.spec.?hostNetwork.orValue(false)", message: leave hostNetwork out}
- {name: computed, expression: "pod.spec.containers.exists(c, c.name == params.container)", messageExpression: "'no container ' + params.container", message: some container is missing}
- {name: fails, expression: "!pod.spec.?hostNetwork.orValue(false)", messageExpression: "pod.spec.hostname", message: the other message}
- {name: bare, expression: "!pod.spec.?hostNetwork.orValue(false)"}
inject: {metadata: {labels: {a: b}}}`)
	pod := onePod(t, map[string]string{"t.pillion.dev/container": "gone"})
	pod["spec"].(map[string]any)["hostNetwork"] = true
	var got []string
	for _, v := range rendered(t, tmpl, Input{Pod: pod}).Invalid {
		got = append(got, v.Name+": "+v.Message)
	}
	want := []string{"text: leave hostNetwork out", "computed: no container gone", "fails: the other message",
		`bare: its validation "bare" is false for this pod: !pod.spec.?hostNetwork.orValue(false)`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// verifying returns what a required template with this spec.verify accepts.
func verifying(t *testing.T, verify string) Verify {
	t.Helper()
	return compiled(t, "required: true\nmatch: {podSelector: {matchLabels: {a: b}}}\n"+verify+"\ninject: {}").Verify()
}

func TestImagesThatPatternsAccept(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for pattern, images := range map[string]map[string]bool{
		"fluent/*": {
			"fluent/fluent-bit": true, "fluent/fluent-bit:4.1": true, "fluent/fluent-bit" + digest: true, "fluent/fluent-bit:4.1" + digest: true,
			"fluent/a/b": false, "fluent/../evil": false, "fluent/../../evil/x": false, "fluent/..": false, "fluent/": false, "fluent": false,
			"evil.example.com/fluent/x": false, "Fluent/x": false, "": false, "fluent/a b": false, "fluent/x\n": false,
		},
		"fluent/**": {
			"fluent/a": true, "fluent/a/b:1": true, "fluent/a/b" + digest: true,
			"fluent/../../evil/x": false, "fluent/a/../../evil": false, "fluent//x": false, "fluent/./x": false, "fluentd/a": false,
		},
		"registry.example.com:5000/team/*": {
			"registry.example.com:5000/team/a:1": true, "registry.example.com/team/a:1": false, "registry.example.com:50001/team/a": false, "registryXexample.com:5000/team/a": false,
		},
		"mirror.example.com/audit:*":      {"mirror.example.com/audit:1": true, "mirror.example.com/audit:": false, "mirror.example.com/audit": false, "mirror.example.com/audit:1/x": false, "mirror.example.com/audit:1" + digest: true},
		"registry.example.com/audit:1*":   {"registry.example.com/audit:1": true, "registry.example.com/audit:1.2": true, "registry.example.com/audit:2": false},
		"*.example.com/audit:1":           {"a.example.com/audit:1": true, "a.b.example.com/audit:1": true, "evil.org/a.example.com/audit:1": false},
		"**/audit:1":                      {"a/audit:1": true, "a.example.com/b/audit:1": true, "audit:1": false, "a/xaudit:1": false},
		"registry.example.com/audit:1":    {"registry.example.com/audit:1": true, "registry.example.com/audit:11": false, "x.registry.example.com/audit:1": false},
		"registry.example.com/a" + digest: {"registry.example.com/a" + digest: true, "registry.example.com/a:1": false},
	} {
		v := verifying(t, "verify: {images: ['"+pattern+"']}")
		for image, want := range images {
			if got := v.AllowsImage(image); got != want {
				t.Errorf("%s, %q: %t", pattern, image, got)
			}
		}
	}
}

func TestVariablesThatPatternsAccept(t *testing.T) {
	v := verifying(t, "verify: {allow: {env: [HTTP_PROXY, 'OTEL_*', '*.proxy', 'a/**']}}")
	for name, want := range map[string]bool{
		"HTTP_PROXY": true, "http_proxy": false, "HTTP_PROXY_X": false, "XHTTP_PROXY": false,
		"OTEL_": true, "OTEL_A/B": true, "OTEL": false, "http.proxy": true, "httpXproxy": false, "a/b": true, "LD_PRELOAD": false, "": false,
	} {
		if got := v.AllowsEnv(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func TestMountsThatPatternsAccept(t *testing.T) {
	v := verifying(t, "verify: {allow: {volumeMounts: ['/etc/ssl/*', '/var/run/secrets/**', /tmp]}}")
	for path, want := range map[string]bool{
		"/etc/ssl/certs": true, "/etc/ssl/certs/a": false, "/etc/ssl": false, "/etc/ssl/": false, "/etc/ssl/..": false, "/etc/ssl/.": false, "/etc/ssl/certs/": false, "etc/ssl/certs": false,
		"/var/run/secrets/a/b": true, "/var/run/secrets/../../bin": false, "/var/run/secrets//a": false, "/var/run/secrets/": false,
		"/tmp": true, "/tmp/": false, "/tmp/a": false, "/": false, "": false,
	} {
		if got := v.AllowsMount(path); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
}
