package podschema

// Gathered has lists, by their paths, that the API declares atomic, but whose items are
// independent of each other and of their order, so that absent ones are appended,
// with what names an item ("": all of it). Options and sysctls have a name: two of
// one name contradict each other.
var Gathered = map[string]string{
	"spec.tolerations":                                    "",
	"spec.containers[].envFrom":                           "",
	"spec.volumes[].projected.sources":                    "",
	"spec.readinessGates":                                 "",
	"spec.dnsConfig.nameservers":                          "",
	"spec.dnsConfig.searches":                             "",
	"spec.dnsConfig.options":                              "name",
	"spec.containers[].securityContext.capabilities.add":  "",
	"spec.containers[].securityContext.capabilities.drop": "",
	"spec.securityContext.supplementalGroups":             "",
	"spec.securityContext.sysctls":                        "name",
}

// Gathers reports whether t is one of the [Gathered] lists.
func (t *Type) Gathers() bool { return t != nil && t.means.gathers }
