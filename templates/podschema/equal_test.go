package podschema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEqualityIsTheAPIs(t *testing.T) {
	for _, c := range []struct {
		path, a, b string
		want       bool
	}{
		{"spec.containers[].resources.limits", "{a: 1000m}", "{a: 1}", true},
		{"spec.containers[].resources.limits", "{a: 64Mi}", "{a: 67108864}", true},
		{"spec.containers[].resources.limits", "{a: 0.5}", "{a: 500m}", true},
		{"spec.containers[].resources.limits", "{a: '1e3'}", "{a: 1k}", true},
		{"spec.containers[].resources.limits", "{a: 1}", "{a: 1001m}", false},
		{"spec.containers[].resources.limits", "{a: x}", "{a: x}", true},
		{"spec.containers[].resources", "{limits: {a: 1}}", "{limits: {a: 1}, requests: {a: '1'}}", true},
		{"spec.containers[].resources", "{limits: {a: 1}}", "{limits: {a: 1}, requests: {a: 2}}", false},
		{"spec.volumes[].emptyDir", "{sizeLimit: 1Gi}", "{sizeLimit: 1024Mi}", true},
		{"spec.volumes[]", "{name: a}", "{name: a, emptyDir: {}}", true},
		{"spec.volumes[]", "{name: a, hostPath: {path: /}}", "{name: a, hostPath: {path: /, type: ''}}", true},
		{"spec.volumes[]", "{name: a, hostPath: {path: /}}", "{name: a, emptyDir: {}}", false},
		{"spec.volumes[]", "{name: a, image: {reference: 'x:latest', pullPolicy: Always}}", "{name: a, image: {reference: 'x:latest'}}", true},
		{"spec.containers[]", "{name: a, image: x}", "{name: a, image: x, imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, resources: {}}", true},
		{"spec.containers[]", "{name: a, image: 'h:80/x'}", "{name: a, image: 'h:80/x', imagePullPolicy: Always}", true},
		{"spec.containers[]", "{name: a, image: 'x:1'}", "{name: a, image: 'x:1', imagePullPolicy: IfNotPresent, env: [], ports: null, stdin: false}", true},
		{"spec.containers[]", "{name: a, image: 'x@sha256:0'}", "{name: a, image: 'x@sha256:0', imagePullPolicy: IfNotPresent}", true},
		{"spec.containers[]", "{name: a, image: 'x:latest@sha256:0'}", "{name: a, image: 'x:latest@sha256:0', imagePullPolicy: Always}", true},
		{"spec.containers[]", "{name: a, image: 'x:1'}", "{name: a, image: 'x:1', imagePullPolicy: Always}", false},
		{"spec.containers[].livenessProbe", "{httpGet: {port: 80}}", "{httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}", true},
		{"spec.containers[].livenessProbe", "{httpGet: {port: 80}}", "{httpGet: {port: '80'}}", false},
		{"spec.containers[].livenessProbe.httpGet.port", "80", "'80'", false},
		{"spec.containers[].ports[]", "{containerPort: 80}", "{containerPort: 80, protocol: TCP, hostPort: 0}", true},
		{"spec.containers[].env[]", "{name: A, value: ''}", "{name: A}", true},
		{"spec.containers[].env[]", "{name: A, valueFrom: {fieldRef: {fieldPath: x}}}", "{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: x}}}", true},
		{"spec.containers[].securityContext", "{privileged: false}", "{}", false},
		{"spec.containers[].securityContext.capabilities", "{drop: [A, B]}", "{drop: [B, A]}", true},
		{"spec.containers[].args", "[a, b]", "[b, a]", false},
		{"spec.containers[].args", "['1']", "[1]", false},
		{"metadata.labels", "{a: ''}", "{}", false},
		{"spec.terminationGracePeriodSeconds", "30", "30.0", true},
		{"spec.volumes[].ephemeral.volumeClaimTemplate.spec", "{storageClassName: ''}", "{}", false},
	} {
		got := Equal(At(c.path), parse(t, "v: "+c.a)["v"], parse(t, "v: "+c.b)["v"])
		if got != c.want {
			t.Errorf("%s: %s and %s equal: %v", c.path, c.a, c.b, got)
		}
	}
}

func TestNumbersHaveOneCanonicalSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"80": "80", "80.0": "80", "8e1": "80", "8.0E+1": "80", "800e-1": "80", "-0": "0", "0.000": "0", "0e99999": "0", "1.5": "15e-1", "150e-2": "15e-1",
		"-1.50": "-15e-1", "12345678901234567890": "12345678901234567890", "1e400": "1e400", "10e399": "1e400", "1e99999999999": "1e99999999999", "x": "x",
	} {
		if got := canonicalNumber(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestHugeExponentsCostNothing(t *testing.T) {
	for _, in := range []any{json.Number("1e999999999"), "1e-999999999", "1e2147483647", strings.Repeat("9", 1<<20), json.Number("1e400")} {
		if q, ok := Quantity(in); ok {
			t.Errorf("%.20v is a quantity: %.20s", in, q)
		}
		canonicalNumber("1e999999999")
	}
}

func TestEveryPathOfTheTablesLeadsToATypeOfItsOwn(t *testing.T) {
	// Paths that are not in the schema panic.
	gathered, unions, defaults := 0, 0, 0
	seen := map[*Type]bool{}
	var walk func(*Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		if t.Gathers() {
			gathered++
		}
		if t.Unions() != nil {
			unions++
		}
		defaults += len(t.means.defaults)
		for _, name := range t.FieldNames() {
			walk(t.Child(name))
		}
		walk(t.Elem())
	}
	walk(Pod())
	if gathered != len(Gathered) || unions != len(unionPaths) || defaults != len(fixed)+len(derived) {
		t.Fatalf("two paths lead to one type: %d gather, %d unions, %d defaults", gathered, unions, defaults)
	}
}
