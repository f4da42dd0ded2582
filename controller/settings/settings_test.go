package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/controller/labels"
)

const text = `
server: {namespace: sidecars, service: cars, listen: ":10250", memoryLimit: 128Mi, logLevel: warn, shutdownDelay: 0s}
reviews: {timeout: 7s, scope: All}
templates: {values: '{"registry": "mirror.example.com", "Port": 9007199254740993}', foreignSidecars: [], namespaced: true}
namespaces: {excluded: [infra], enforcement: Asked, proof: sidecars-proof}
pods: {countEvery: 1h}
certificates: {provider: cert-manager, secret: cars-serving, publish: true, leafDuration: 2h}
`

func TestTheFileSaysWhatTheServerDoes(t *testing.T) {
	s, err := Parse([]byte(text))
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Server.Namespace, want.Server.Service, want.Server.Listen, want.Server.MemoryLimit, want.Server.LogLevel, want.Server.ShutdownDelay = "sidecars", "cars", ":10250", "128Mi", "warn", 0
	want.Reviews = Reviews{Timeout: 7 * time.Second, Scope: All}
	want.Templates = Templates{Values: s.Templates.Values, ForeignSidecars: []string{}, Namespaced: true}
	want.Namespaces = Namespaces{Excluded: []string{"infra", "sidecars"}, Enforcement: labels.EnforceAsked, Proof: "sidecars-proof"}
	want.Pods.CountEvery = time.Hour
	want.Certificates.Provider, want.Certificates.Secret, want.Certificates.Publish, want.Certificates.LeafDuration = CertManager, "cars-serving", true, 2*time.Hour
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	compile, err := s.Compile()
	if err != nil || compile.ForeignSidecars == nil || len(compile.ForeignSidecars) != 0 {
		t.Errorf("templates are compiled with %+v, %v", compile, err)
	}
	// Keys keep their letters, and numbers all their digits.
	if values, err := s.TemplateValues(); err != nil || values["registry"] != "mirror.example.com" || values["Port"] == nil || !strings.Contains(cmp.Diff(nil, values["Port"]), "9007199254740993") {
		t.Errorf("the values are %v, %v", values, err)
	}
	if s.Server.MemoryBytes() != 128<<20 || !s.Proves() || !s.Registration().All || !s.Certificates.Publishes() {
		t.Errorf("%+v", s)
	}
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	for name, file := range map[string]string{
		"levle": "server: {logLevle: debug}", "serveer": "serveer: {a: 1}", "mapping key": "server: {}\nserver: {}", "cannot unmarshal": "[", "reviews.timeout": "reviews: {timeout: soon}",
	} {
		if _, err := Parse([]byte(file)); err == nil || name != "cannot unmarshal" && !strings.Contains(strings.ToLower(err.Error()), name) {
			t.Errorf("%s: %v, want %s", file, err, name)
		}
	}
}

func TestTheErrorNamesEveryWrongSetting(t *testing.T) {
	s, err := Parse([]byte(`
server: {namespace: "a/b", service: "A", serviceAccount: "", listen: "8443", adminListen: "", memoryLimit: 64Mi, logLevel: loud, logFormat: xml, shutdownDelay: -1s, shutdownTimeout: 0s}
reviews: {timeout: 31s, scope: all, clientNames: [kube-apiserver]}
templates: {values: "[]", foreignSidecars: ["A B"]}
namespaces: {excluded: [kube-system], enforcement: Always, proof: kube-system, uninstallMarker: "a/b"}
pods: {countEvery: 1s}
certificates: {provider: magic, webhookConfiguration: "", leafDuration: 9000h, settle: 8000h, publish: true, secret: ""}
`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate()
	if err == nil {
		t.Fatal("the wrong settings are accepted")
	}
	for _, want := range []string{
		"server.namespace", "server.service ", "server.serviceAccount", "server.listen", "server.adminListen", "server.memoryLimit", "server.logLevel", "server.logFormat", "server.shutdownDelay", "server.shutdownTimeout",
		"reviews.timeout", "reviews.scope", "reviews.clientNames", "templates.values", "templates.foreignSidecars", "namespaces.enforcement", "Required, Asked, None", "namespaces.proof", "namespaces.uninstallMarker",
		"pods.countEvery", "certificates.provider", "certificates.webhookConfiguration", "certificates.leafDuration", "certificates.settle", "certificates.publish", "certificates.secret",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
	files := defaults()
	files.Server.Namespace, files.Certificates.Provider = "own", Files
	if err := files.Validate(); err == nil || !strings.Contains(err.Error(), "certificates.folder") {
		t.Errorf("files without a folder: %v", err)
	}
	files.Certificates.Folder = "/certificate"
	if err := files.Validate(); err != nil {
		t.Errorf("files: %v", err)
	}
}
