package library_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
)

func compile(t *testing.T, name string) *templates.Template {
	t.Helper()
	manifest, err := library.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, warnings, err := templates.Compile(manifest, templates.Options{Source: "library/" + name})
	if err != nil {
		t.Fatalf("compiling: %v", err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	return tmpl
}

// render renders for a pod written as JSON and the annotations of its namespace.
func render(t *testing.T, name, pod string, annotations map[string]string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(pod))
	d.UseNumber()
	var p map[string]any
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	r, err := compile(t, name).Render(templates.Input{Pod: p, Namespace: templates.Namespace{Name: "shop", Annotations: annotations}})
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	if r.Unmet != nil || len(r.Warnings) != 0 {
		t.Fatalf("unmet condition %v, warnings %q", r.Unmet, r.Warnings)
	}
	spec, _ := r.Fragment["spec"].(map[string]any)
	return spec
}

const (
	minimalPod = `{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}`
	fullPod    = `{"metadata": {"name": "web"}, "spec": {
		"initContainers": [{"name": "migrate", "image": "m"}, {"name": "cache", "image": "c", "restartPolicy": "Always"}],
		"containers": [{"name": "web", "image": "w", "ports": [{"containerPort": 3000}, {"containerPort": 9090}], "env": [{"name": "A", "value": "b"}]}, {"name": "worker", "image": "w"}],
		"volumes": [{"name": "data", "emptyDir": {}}]}}`
)

// sidecar returns the one container that a fragment adds.
func sidecar(t *testing.T, spec map[string]any) map[string]any {
	t.Helper()
	added, _ := spec["initContainers"].([]any)
	if len(added) != 1 {
		t.Fatalf("%d init containers are added; want the sidecar", len(added))
	}
	return added[0].(map[string]any)
}

// env returns a container's variables as NAME=VALUE, those from elsewhere as NAME<JSON.
func env(t *testing.T, container map[string]any) []string {
	t.Helper()
	got := []string{}
	list, _ := container["env"].([]any)
	for _, item := range list {
		v := item.(map[string]any)
		if from, ok := v["valueFrom"]; ok {
			data, err := json.Marshal(from)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v["name"].(string)+"<"+string(data))
			continue
		}
		got = append(got, v["name"].(string)+"="+v["value"].(string))
	}
	return got
}

// extended returns the names of the pod's containers that a fragment extends.
func extended(spec map[string]any) []string {
	var got []string
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if c := item.(map[string]any); c["image"] == nil {
				got = append(got, c["name"].(string))
			}
		}
	}
	return got
}

func TestNamesAreSortedAndThoseOfTheManifests(t *testing.T) {
	want := []string{"environment", "fluent-bit", "oauth2-proxy"}
	if diff := cmp.Diff(want, library.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, name := range library.Names() {
		if got := compile(t, name).Name(); got != name {
			t.Errorf("the manifest of %s is named %s", name, got)
		}
	}
}

func TestUnknownNameIsAnErrorThatListsWhatThereIs(t *testing.T) {
	for _, name := range []string{"fluentd", "", "../library.go", "fluent-bit.yaml"} {
		_, err := library.Get(name)
		if err == nil || !strings.HasSuffix(err.Error(), "it has environment, fluent-bit, oauth2-proxy") {
			t.Errorf("Get(%q) error = %v", name, err)
		}
	}
}

func TestGetGivesEachCallerItsOwnBytes(t *testing.T) {
	first, err := library.Get("environment")
	if err != nil {
		t.Fatal(err)
	}
	clear(first)
	second, err := library.Get("environment")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("environment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(second, file) {
		t.Error("what one caller did to its bytes shows in another's")
	}
}

func TestEveryTemplateAndParameterIsDescribed(t *testing.T) {
	for _, name := range library.Names() {
		tmpl := compile(t, name)
		if tmpl.Spec().Description == "" {
			t.Errorf("%s has no description", name)
		}
		for _, p := range tmpl.Parameters() {
			if p.Description == "" {
				t.Errorf("%s: the parameter %s has no description", name, p.Name)
			}
			if p.Default == nil && p.Example == nil {
				t.Errorf("%s: the parameter %s has neither a default nor an example", name, p.Name)
			}
			if open := p.Enum == nil && p.Pattern == "" && p.MaxLength == nil; open && p.Type == "string" {
				t.Errorf("%s: the parameter %s takes any text", name, p.Name)
			}
		}
	}
}

func TestTemplatesRenderForMinimalAndFullPods(t *testing.T) {
	needed := map[string]string{
		"oauth2-proxy.pillion.dev/client-id":     "shop",
		"oauth2-proxy.pillion.dev/email-domains": "example.com",
		"environment.pillion.dev/env.A":          "b",
	}
	for _, name := range library.Names() {
		for _, pod := range []string{minimalPod, fullPod} {
			if spec := render(t, name, pod, needed); len(spec) == 0 {
				t.Errorf("%s renders to nothing", name)
			}
		}
	}
}

func TestSidecarsAreNativeAndKeepToTheRestrictedPodSecurityStandard(t *testing.T) {
	for _, name := range []string{"fluent-bit", "oauth2-proxy"} {
		c := sidecar(t, render(t, name, minimalPod, map[string]string{
			"oauth2-proxy.pillion.dev/client-id":     "shop",
			"oauth2-proxy.pillion.dev/email-domains": "example.com",
		}))
		if c["restartPolicy"] != "Always" {
			t.Errorf("%s: restartPolicy is %v; a Job with it would never finish", name, c["restartPolicy"])
		}
		user := c["securityContext"].(map[string]any)["runAsUser"]
		want := map[string]any{
			"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
			"readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": user, "runAsGroup": user,
			"seccompProfile": map[string]any{"type": "RuntimeDefault"},
		}
		if diff := cmp.Diff(want, c["securityContext"]); diff != "" || user == json.Number("0") {
			t.Errorf("%s: securityContext (-want +got):\n%s", name, diff)
		}
		resources := c["resources"].(map[string]any)
		if limit, request := resources["limits"].(map[string]any)["memory"], resources["requests"].(map[string]any)["memory"]; limit != "64Mi" || request != limit {
			t.Errorf("%s: memory limit %v, request %v", name, limit, request)
		}
	}
}

func TestFluentBitShipsToStdoutUnlessToldOtherwise(t *testing.T) {
	tail := []any{
		"--input=tail", "--prop=path=/var/log/app/*.log", "--prop=path_key=file", "--prop=read_from_head=true", "--prop=refresh_interval=5",
		"--prop=skip_long_lines=on", "--prop=mem_buf_limit=16MB", "--prop=db=/var/lib/fluent-bit/tail.db",
	}
	for _, test := range []struct {
		name        string
		annotations map[string]string
		want        []any
		level       string
	}{
		{
			"defaults", nil,
			slices.Concat([]any{"--http", "--port=2020"}, tail, []any{"--output=stdout", "--match=*"}), "info",
		},
		{
			"another output, JSON lines", map[string]string{
				"fluent-bit.pillion.dev/output.name": "forward", "fluent-bit.pillion.dev/output.port": "24224", "fluent-bit.pillion.dev/output.host": "logs.internal",
				"fluent-bit.pillion.dev/format": "json", "fluent-bit.pillion.dev/log-level": "debug",
			},
			slices.Concat([]any{"--http", "--port=2020", "--parser=/fluent-bit/etc/parsers.conf"}, tail,
				[]any{"--prop=parser=json", "--output=forward", "--prop=host=logs.internal", "--prop=port=24224", "--match=*"}), "debug",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := sidecar(t, render(t, "fluent-bit", minimalPod, test.annotations))
			if diff := cmp.Diff(test.want, c["args"]); diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"FLB_LOG_LEVEL=" + test.level}, env(t, c)); diff != "" {
				t.Errorf("env (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFluentBitSharesTheLogDirectoryWithEveryContainer(t *testing.T) {
	spec := render(t, "fluent-bit", fullPod, map[string]string{"fluent-bit.pillion.dev/log-directory": "/logs", "fluent-bit.pillion.dev/volume-size-limit": "2Gi"})
	var mounted []string
	for _, item := range slices.Concat(spec["initContainers"].([]any), spec["containers"].([]any)) {
		c := item.(map[string]any)
		for _, m := range c["volumeMounts"].([]any) {
			if m := m.(map[string]any); m["name"] == "fluent-bit-logs" && m["mountPath"] == "/logs" {
				mounted = append(mounted, c["name"].(string))
			}
		}
	}
	slices.Sort(mounted)
	if diff := cmp.Diff([]string{"cache", "fluent-bit", "migrate", "web", "worker"}, mounted); diff != "" {
		t.Errorf("containers with the mount (-want +got):\n%s", diff)
	}
	want := map[string]any{"name": "fluent-bit-logs", "emptyDir": map[string]any{"sizeLimit": "2Gi"}}
	if diff := cmp.Diff(want, spec["volumes"].([]any)[0]); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	unlimited := render(t, "fluent-bit", fullPod, nil)["volumes"].([]any)[0]
	if diff := cmp.Diff(map[string]any{"name": "fluent-bit-logs", "emptyDir": map[string]any{}}, unlimited); diff != "" {
		t.Errorf("volume without a limit (-want +got):\n%s", diff)
	}
}

func TestOAuth2ProxyFindsTheAppsPort(t *testing.T) {
	needed := map[string]string{"oauth2-proxy.pillion.dev/client-id": "shop", "oauth2-proxy.pillion.dev/email-domains": "*"}
	told := map[string]string{"oauth2-proxy.pillion.dev/upstream-port": "5000"}
	for k, v := range needed {
		told[k] = v
	}
	for _, test := range []struct {
		name, pod   string
		annotations map[string]string
		want        string
	}{
		{"the annotation", fullPod, told, "5000"},
		{"the first port of the first container", fullPod, needed, "3000"},
		{"8080 where none is declared", minimalPod, needed, "8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := env(t, sidecar(t, render(t, "oauth2-proxy", test.pod, test.annotations)))
			if want := "OAUTH2_PROXY_UPSTREAMS=http://127.0.0.1:" + test.want; !slices.Contains(got, want) {
				t.Errorf("env %q; want %s", got, want)
			}
		})
	}
}

func TestOAuth2ProxyIsConfiguredByEnvironmentAlone(t *testing.T) {
	c := sidecar(t, render(t, "oauth2-proxy", minimalPod, map[string]string{
		"oauth2-proxy.pillion.dev/client-id":     "shop",
		"oauth2-proxy.pillion.dev/email-domains": "example.com, example.org",
		"oauth2-proxy.pillion.dev/issuer-url":    "https://login.example.com",
		"oauth2-proxy.pillion.dev/secret-name":   "shop-login",
		"oauth2-proxy.pillion.dev/redirect-url":  "https://shop.example.com/oauth2/callback",
		"oauth2-proxy.pillion.dev/port":          "9000",
	}))
	want := []string{
		"OAUTH2_PROXY_HTTP_ADDRESS=0.0.0.0:9000",
		"OAUTH2_PROXY_UPSTREAMS=http://127.0.0.1:8080",
		"OAUTH2_PROXY_PROVIDER=oidc",
		"OAUTH2_PROXY_OIDC_ISSUER_URL=https://login.example.com",
		"OAUTH2_PROXY_CLIENT_ID=shop",
		`OAUTH2_PROXY_CLIENT_SECRET<{"secretKeyRef":{"key":"client-secret","name":"shop-login"}}`,
		`OAUTH2_PROXY_COOKIE_SECRET<{"secretKeyRef":{"key":"cookie-secret","name":"shop-login"}}`,
		"OAUTH2_PROXY_EMAIL_DOMAINS=example.com,example.org",
		"OAUTH2_PROXY_REDIRECT_URL=https://shop.example.com/oauth2/callback",
		"OAUTH2_PROXY_REVERSE_PROXY=true",
		"OAUTH2_PROXY_COOKIE_SECURE=true",
		"OAUTH2_PROXY_SKIP_PROVIDER_BUTTON=true",
		"OAUTH2_PROXY_SILENCE_PING_LOGGING=true",
	}
	if diff := cmp.Diff(want, env(t, c)); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	for _, field := range []string{"command", "args"} {
		if _, ok := c[field]; ok {
			t.Errorf("the container has %s", field)
		}
	}
	for probe, path := range map[string]string{"readinessProbe": "/ready", "livenessProbe": "/ping"} {
		want := map[string]any{"path": path, "port": json.Number("9000")}
		if diff := cmp.Diff(want, c[probe].(map[string]any)["httpGet"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", probe, diff)
		}
	}
}

func TestOAuth2ProxyRefusesWhatWouldLeaveTheDoorOpen(t *testing.T) {
	for _, annotations := range []map[string]string{
		{},
		{"oauth2-proxy.pillion.dev/client-id": "shop"},
		{"oauth2-proxy.pillion.dev/client-id": "shop", "oauth2-proxy.pillion.dev/email-domains": "example.com,*.org"},
		{"oauth2-proxy.pillion.dev/client-id": "shop", "oauth2-proxy.pillion.dev/email-domains": "example.com", "oauth2-proxy.pillion.dev/issuer-url": "http://plain.example.com"},
		{"oauth2-proxy.pillion.dev/client-id": "shop", "oauth2-proxy.pillion.dev/email-domains": "example.com", "oauth2-proxy.pillion.dev/provider": "none"},
	} {
		_, err := compile(t, "oauth2-proxy").Render(templates.Input{
			Pod:       map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx"}}}},
			Namespace: templates.Namespace{Name: "shop", Annotations: annotations},
		})
		if _, ok := err.(*templates.ParameterError); !ok {
			t.Errorf("with %v: error %v; want a ParameterError", annotations, err)
		}
	}
}

func TestEnvironmentReachesEveryContainerInOneOrder(t *testing.T) {
	spec := render(t, "environment", fullPod, map[string]string{
		"environment.pillion.dev/env.NO_PROXY":    ".svc",
		"environment.pillion.dev/env.HTTPS_PROXY": "http://proxy.example.com:3128",
		"environment.pillion.dev/ca-config-map":   "corporate-ca",
		"environment.pillion.dev/ca-key":          "bundle.pem",
		"environment.pillion.dev/ca-variables":    "SSL_CERT_FILE",
	})
	got := extended(spec)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"cache", "migrate", "web", "worker"}, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	containers, _ := spec["containers"].([]any)
	inits, _ := spec["initContainers"].([]any)
	for _, item := range slices.Concat(inits, containers) {
		c := item.(map[string]any)
		want := []string{"HTTPS_PROXY=http://proxy.example.com:3128", "NO_PROXY=.svc", "SSL_CERT_FILE=/etc/pillion/ca/bundle.pem"}
		if diff := cmp.Diff(want, env(t, c)); diff != "" {
			t.Errorf("%s: env (-want +got):\n%s", c["name"], diff)
		}
		mounts := []any{map[string]any{"name": "pillion-ca", "mountPath": "/etc/pillion/ca", "readOnly": true}}
		if diff := cmp.Diff(mounts, c["volumeMounts"]); diff != "" {
			t.Errorf("%s: mounts (-want +got):\n%s", c["name"], diff)
		}
	}
	volumes := []any{map[string]any{"name": "pillion-ca", "configMap": map[string]any{
		"name": "corporate-ca", "items": []any{map[string]any{"key": "bundle.pem", "path": "bundle.pem"}},
	}}}
	if diff := cmp.Diff(volumes, spec["volumes"]); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

func TestEnvironmentWithoutABundleMountsNothing(t *testing.T) {
	spec := render(t, "environment", minimalPod, map[string]string{"environment.pillion.dev/env.A": "b"})
	if volumes, _ := spec["volumes"].([]any); len(volumes) != 0 {
		t.Errorf("volumes: %v", volumes)
	}
	web := spec["containers"].([]any)[0].(map[string]any)
	if mounts, _ := web["volumeMounts"].([]any); len(mounts) != 0 {
		t.Errorf("mounts: %v", mounts)
	}
	if diff := cmp.Diff([]string{"A=b"}, env(t, web)); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}
