// Package inspect reads an installation of Pillion, and the pods of its cluster, for the commands
// that explain them: check, status, explain, and those that take the cluster's settings.
//
// In: a [Place], which says where Pillion is, and the user's own rights. Out: the facts that
// inspect/check judges, the reports that inspect/explain prints, and what running replicas say of
// themselves (inspect/state). Nothing is written; pods are created by dry run only. A right that
// is missing is one error, which names the commands that grant it ([rights.MissingError]).
//
// May import: clients, the packages below it, offline, injector and templates. Only cmd imports it.
package inspect
