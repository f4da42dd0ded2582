// Package predict says what refuses a pod after its injection: the rules of the API, the
// namespace's Pod Security level, its LimitRanges and its ResourceQuotas. It also says which
// sidecar keeps a Job from finishing.
//
// In: the pod before and after the injection, its namespace with what limits pods there,
// and the templates that were injected. Out: [Trouble], each with the template and the
// parameter that change it, and whether the pod without the sidecars would pass.
//
// Only certain refusals count as such: what depends on the moment, such as a quota that is
// used up, is a warning. A ResourceQuota with scopes is not looked at.
//
// May import: offline/apirules, templates, the API's types, Kubernetes' Pod Security
// checks and sums of resources. No client.
package predict
