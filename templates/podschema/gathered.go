package podschema

// Gathered has paths of lists that the API declares atomic, although their items do not depend on each other or
// on their order. The merge appends absent items to them. Each path has the field that identifies an item, ""
// for the whole item. Two options or sysctls of one name contradict each other.
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
