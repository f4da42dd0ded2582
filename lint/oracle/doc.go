// Package oracle asks an API server whether the pods that get a template are valid, and says which
// place of the template is wrong. No rule of the API is written down here.
//
// In: a template, sample pods before and after its merge, and a function that creates a pod by dry run. Out:
// a [Cause] for each mistake that the API server names, as steps to its place in the manifest.
//
// May import: templates, injector/workload, the API's types and errors. No client.
package oracle
