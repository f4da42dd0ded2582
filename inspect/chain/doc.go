// Package chain says which admission webhooks and policies a new pod meets, in the order in
// which the API server calls them.
//
// In: the configurations as the API has them, a pod and its namespace. Out: a [Chain]. Rules and
// matchConditions are judged by Kubernetes' own code (k8s.io/apiserver), so CEL means here what
// it means there; the pod gets the API's defaults first, as it does there. What depends on who
// creates the pod, on an authorizer or on a policy's parameters is not guessed.
//
// May import: inspect/check, templates, k8s.io/{api,apimachinery,apiserver}. No net/http and no client.
package chain
