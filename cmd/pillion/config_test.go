package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) (serveConfig, error) {
	t.Helper()
	var c serveConfig
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := c.load(f)
	return c, err
}

func TestFlagsOverrideTheEnvironmentWhichOverridesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	if err := os.WriteFile(file, []byte("service: from-file\nlog-level: warn\nca-secret: from-file\nwebhook-configuration: [a, b]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PILLION_CA_SECRET", "from-env")
	t.Setenv("PILLION_SERVICE", "from-env")
	t.Setenv("PILLION_EXCLUDED_NAMESPACES", "one, two")
	c, err := parse(t, "--config", file, "--namespace", "own", "--service", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	if c.Service != "from-flag" || c.CASecret != "from-env" || c.LogLevel != "warn" {
		t.Errorf("service %q, ca-secret %q, log-level %q", c.Service, c.CASecret, c.LogLevel)
	}
	if got := strings.Join(c.Excluded, " "); got != "one two own" {
		t.Errorf("excluded namespaces %q", got)
	}
	if got := strings.Join(c.Mutating, " "); got != "a b" {
		t.Errorf("webhook configurations %q", got)
	}
}

func TestTheErrorNamesEveryWrongSetting(t *testing.T) {
	t.Setenv("PILLION_PREVIEW", "maybe")
	_, err := parse(t, "--listen", "8443", "--certs-provider", "magic", "--library", "fluent-bti", "--log-level", "loud", "--leaf-duration", "9000h", "--templates", "no/such/dir", "--review-timeout", "31s", "--memory-limit", "64Mi", "--annotation-prefix", "Bad_Prefix", "--enforcement", "Always", "--proof-namespace", "kube-system", "--uninstall-marker", "a/b", "--webhook-scope", "all")
	if err == nil {
		t.Fatal("the wrong settings are accepted")
	}
	for _, want := range []string{"--listen", "--namespace", `--preview is "maybe"`, "--certs-provider", "--library", "fluent-bit", "--log-level", "--leaf-duration", "--templates", "--review-timeout", "--memory-limit", "--annotation-prefix", "--enforcement", "Required, Asked, None", "--proof-namespace", "--uninstall-marker", "--webhook-scope", "Requested, All"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
}

func TestClientsAreLimitedByAFileOfCAsOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--client-ca-file is \"" + file: {"--client-ca-file", file},
		"no such file":                  {"--client-ca-file", file + ".none"},
		"--client-names":                {"--client-names", "kube-apiserver"},
	} {
		if _, err := parse(t, append(args, "--namespace", "own")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %s", args, err, want)
		}
	}
	if c, err := parse(t, "--namespace", "own"); err != nil || c.ClientCAFile != "" || !c.OwnerEvents || !c.CreateCASecret {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

func TestAnUnknownKeyOfTheFileIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	if err := os.WriteFile(file, []byte("log-levle: debug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, "--config", file, "--namespace", "own"); err == nil || !strings.Contains(err.Error(), "log-levle") {
		t.Errorf("got %v", err)
	}
}

func TestASettingThatIsThereTwiceInTheFileIsAnError(t *testing.T) {
	for ending, text := range map[string]string{"yaml": "Namespace: a\nNAMESPACE: b\n", "json": `{"namespace": "a", "Namespace": "b"}`, "toml": "namespace = \"a\"\nNamespace = \"b\"\n"} {
		file := filepath.Join(t.TempDir(), "pillion."+ending)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := parse(t, "--config", file); err == nil || !strings.Contains(err.Error(), "the setting namespace is set twice") {
			t.Errorf("%s: got %v", ending, err)
		}
	}
}
