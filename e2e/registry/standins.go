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
	"library/nginx":     {listen: "80"},
	"proxy":             {listen: "15021", exitOn: "redirect"}, // mesh.example.com/proxy, of the mesh in injector/testdata
	"fluent/fluent-bit": {listen: "2020", paths: []string{"/fluent-bit/bin/fluent-bit"}},
}
