// Package clash finds ports and mounts that cannot stand beside each other in a pod: a
// port that two containers listen on, a host port or a port's name twice, two mounts of
// one directory.
//
// In: a plan. Out: the first [Error], and warnings. Only what involves something that a
// template put there counts; what the pod alone does is between its author and the API
// server. The cost is linear in the ports and mounts of the pod, and nothing where no
// template renders any.
//
// May import: injector/merge, templates/podschema, templates/directive.
package clash
