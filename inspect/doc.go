// Package inspect reads an installation of Pillion, and the pods of its cluster, for the commands
// that explain them: check, status, explain, and commands that use the cluster's settings.
//
// In: a [Place], the location of Pillion, and the user's own rights. Out: facts for inspect/check,
// reports that inspect/explain prints, and the states of running replicas (inspect/state). Nothing
// is written; pods are created by dry run only. A missing right is one error, which names the
// commands that grant it ([rights.MissingError]).
//
// May import: clients, the packages below it, injector, webhook/state and templates. Only cmd imports it.
package inspect
