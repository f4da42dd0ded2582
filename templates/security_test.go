package templates

import (
	"testing"
)

func TestRestrictedFillsInWhatTheTemplateAndThePodLeaveOpen(t *testing.T) {
	const (
		all     = `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`
		sidecar = "{name: s, image: s}"
	)
	with := func(security string) string { return "{name: s, image: s, securityContext: " + security + "}" }
	for name, c := range map[string]struct{ pod, item, want string }{
		"nothing is said":         {`{}`, sidecar, all},
		"an empty object":         {`{"securityContext":{}}`, with("{}"), all},
		"the pod says it all":     {`{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"Localhost","localhostProfile":"x"}}}`, sidecar, `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}`},
		"the pod says too little": {`{"securityContext":{"runAsNonRoot":false,"seccompProfile":{"type":"Unconfined"}}}`, sidecar, all},
		"the template's own stays": {`{}`, with("{allowPrivilegeEscalation: true, runAsNonRoot: false, capabilities: {drop: [NET_RAW]}, seccompProfile: {type: Unconfined}}"),
			`{"allowPrivilegeEscalation":true,"runAsNonRoot":false,"capabilities":{"drop":["NET_RAW"]},"seccompProfile":{"type":"Unconfined"}}`},
		"added capabilities stay":                       {`{}`, with("{capabilities: {add: [NET_BIND_SERVICE]}}"), `{"allowPrivilegeEscalation":false,"capabilities":{"add":["NET_BIND_SERVICE"],"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"root is told to be root":                       {`{}`, with("{runAsUser: 0}"), `{"runAsUser":0,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"the pod's root":                                {`{"securityContext":{"runAsUser":0}}`, sidecar, `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a user instead of the pod's root":              {`{"securityContext":{"runAsUser":0}}`, with("{runAsUser: 65532}"), `{"runAsUser":65532,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a privileged one, of which the API refuses it": {`{}`, with("{privileged: true}"), `{"privileged":true,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"SYS_ADMIN, with which the API refuses it":      {`{}`, with("{capabilities: {add: [SYS_ADMIN]}}"), `{"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		"a pod for Windows":                             {`{"os":{"name":"windows"}}`, with("{windowsOptions: {runAsUserName: ContainerUser}}"), `{"windowsOptions":{"runAsUserName":"ContainerUser"},"runAsNonRoot":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			template := compiled(t, "containerSecurity: Restricted\ninject: {spec: {containers: ["+c.item+", {name: web, env: [{name: A}]}], initContainers: ["+c.item+"]}}")
			pod := raw(t, `{"spec":`+c.pod+`}`)
			item := `{"name":"s","image":"s","securityContext":` + c.want + `}`
			want := `{"spec":{"containers":[` + item + `,{"name":"web","env":[{"name":"A"}]}],"initContainers":[` + item + `]}}`
			wantFragment(t, rendered(t, template, Input{Pod: pod}).Fragment, want)
		})
	}
}

// What the template says of the pod as a whole counts, unless the pod says otherwise.
func TestRestrictedReadsTheTemplatesPodSecurityContext(t *testing.T) {
	template := compiled(t, "containerSecurity: Restricted\ninject: {spec: {securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: s, image: s}]}}")
	fragment := func(security string) string {
		return `{"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"s","image":"s","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}` + security + `}}]}}`
	}
	wantFragment(t, rendered(t, template, Input{Pod: raw(t, `{"spec":{}}`)}).Fragment, fragment(""))
	wantFragment(t, rendered(t, template, Input{Pod: raw(t, `{"spec":{"securityContext":{"runAsNonRoot":false}}}`)}).Fragment, fragment(`,"runAsNonRoot":true`))
}
