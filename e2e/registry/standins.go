package registry

// A standIn is what the software of a repository does that others in a pod can see.
type standIn struct {
	listen string   // ports, separated by commas
	exitOn string   // words, separated by spaces, that make it end at once
	paths  []string // where else its binary is looked for
}

// standIns are those that do more than run, by the last element of the repository's name:
// mirrors keep it.
var standIns = map[string]standIn{
	"autoinstrumentation-java": {exitOn: "/javaagent.jar", paths: []string{"/bin/cp"}},
	"cloud-sql-proxy":          {listen: "9801"},
	"daprd":                    {listen: "3500,3501", paths: []string{"/daprd"}},
	"fluent-bit":               {listen: "2020", paths: []string{"/fluent-bit/bin/fluent-bit"}},
	"ghostunnel":               {listen: "8443,9843"},
	"git-sync":                 {listen: "9820"},
	"netshoot":                 {paths: []string{"/bin/sh"}},
	"nginx":                    {listen: "80"},
	"oauth2-proxy":             {listen: "4180"},
	"opentelemetry-collector":  {listen: "13133"},
	"pgbouncer":                {exitOn: "-z", paths: []string{"/usr/bin/nc"}}, // its probe asks with nc
	"proxy":                    {listen: "15021", exitOn: "redirect"},          // the mesh in injector/testdata
	"proxyv2":                  {listen: "15020,15021", exitOn: "istio-iptables"},
	"statsd-exporter":          {listen: "9102"},
	"vault":                    {exitOn: "-exit-after-auth", paths: []string{"/bin/sh"}},
}
