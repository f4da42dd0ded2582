package registry

// A standIn is what the software of a repository does that others in a pod can see.
type standIn struct {
	listen string   // ports, separated by commas
	exitOn string   // words, separated by spaces, that make it end at once
	paths  []string // where else its binary is looked for
}

// standIns are those that do more than run, by repository. Those on Docker Hub have
// their full names here.
var standIns = map[string]standIn{
	"cloud-sql-connectors/cloud-sql-proxy": {listen: "9801"},
	"fluent/fluent-bit":                    {listen: "2020", paths: []string{"/fluent-bit/bin/fluent-bit"}},
	"ghostunnel/ghostunnel":                {listen: "8443,9843"},
	"git-sync/git-sync":                    {listen: "9820"},
	"hashicorp/vault":                      {exitOn: "-exit-after-auth", paths: []string{"/bin/sh"}},
	"istio/proxyv2":                        {listen: "15020,15021", exitOn: "istio-iptables"},
	"library/nginx":                        {listen: "80"},
	"nicolaka/netshoot":                    {paths: []string{"/bin/sh"}},
	"oauth2-proxy/oauth2-proxy":            {listen: "4180"},
	"otel/opentelemetry-collector":         {listen: "13133"},
	"prom/statsd-exporter":                 {listen: "9102"},
	"proxy":                                {listen: "15021", exitOn: "redirect"}, // mesh.example.com/proxy, of the mesh in injector/testdata
}
