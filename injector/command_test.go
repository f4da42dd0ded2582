package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

func TestARefusalEndsInTheCommandThatTheTeamCanRun(t *testing.T) {
	owner := func(version, kind, name string) string {
		return "ownerReferences: [{apiVersion: " + version + ", kind: " + kind + ", name: " + name + ", controller: true}]"
	}
	for name, c := range map[string]struct {
		config    Config
		metadata  string
		operation string
		want      string
	}{
		"a pod of a Deployment":           {metadata: "labels: {pod-template-hash: 5d8f}, " + owner("apps/v1", "ReplicaSet", "web-5d8f"), want: "kubectl pillion explain -n shop deploy/web"},
		"the hash of another":             {metadata: "labels: {pod-template-hash: aaaa}, " + owner("apps/v1", "ReplicaSet", "web-5d8f"), want: "kubectl pillion explain -n shop rs/web-5d8f"},
		"nothing but the hash":            {metadata: "labels: {pod-template-hash: 5d8f}, " + owner("apps/v1", "ReplicaSet", "-5d8f"), want: "kubectl pillion explain -n shop --cluster -f POD.yaml"},
		"a pod of a StatefulSet":          {metadata: owner("apps/v1", "StatefulSet", "db"), want: "kubectl pillion explain -n shop sts/db"},
		"a kind that explain knows not":   {metadata: owner("example.com/v1", "Job", "own"), want: "kubectl pillion explain -n shop --cluster -f POD.yaml"},
		"an owner for the reader's shell": {metadata: owner("apps/v1", "StatefulSet", `"$(reboot)"`), want: "kubectl pillion explain -n shop --cluster -f POD.yaml"},
		"a pod that exists":               {metadata: "name: web-0", operation: "UPDATE", want: "kubectl pillion explain -n shop pod/web-0"},
		"another installation":            {config: Config{Namespace: "sidecars"}, want: "kubectl pillion explain -n shop --pillion-namespace sidecars --cluster -f POD.yaml"},
		"files":                           {config: Config{Explain: "pillion explain -f web.yaml"}, metadata: owner("apps/v1", "StatefulSet", "db"), want: "pillion explain -f web.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fromYAML(t, "metadata: {annotations: {pillion.dev/inject: ''}, "+c.metadata+"}\nspec: {containers: [{name: web, image: web}]}")
			request := Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: templates.NewSet(nil)}
			out, err := NewPipeline(c.config).Inject(t.Context(), request)
			if c.operation != "" { // only the verification of a final pod refuses then
				request.Operation = c.operation
				out.Command = c.config.explainCommand(request)
			}
			if lines := out.Lines(); err != nil || len(lines) != 2 || lines[1] != "For details run: "+c.want {
				t.Errorf("%v\n%q\nwant %s", err, lines, c.want)
			}
			if c.operation == "" && (strings.Contains(out.Message, "explain") || !strings.HasSuffix(out.Message, ")")) {
				t.Errorf("the message has more than the reason: %s", out.Message)
			}
		})
	}
}
