package main

import (
	"strings"
	"testing"
)

// What can be imported is, whatever stands beside it. Only where nothing can, the command fails.
func TestImportFailsOnlyWhereNothingCanBeImported(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
	code, out, errs := call(t, service, nil, "import", "-")
	if code != exitError || out != "" || !strings.Contains(errs, "note: Service/web: ") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	code, out, errs = call(t, service+"---\nname: cache\ncontainers: [{name: cache, image: \"memcached:1.6\"}]\n", nil, "import", "-")
	if code != exitDone || !strings.Contains(out, "name: cache") || !strings.Contains(errs, "note: Service/web: ") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if code, out, errs := call(t, pod("pillion.dev/inject: cache"), map[string]string{"t.yaml": out}, "inject", "-f", "-", "--templates", "DIR/t.yaml"); code != exitDone || !strings.Contains(out, "image: memcached:1.6") {
		t.Errorf("injecting what was imported: exit %d, %q, %q", code, out, errs)
	}
}
