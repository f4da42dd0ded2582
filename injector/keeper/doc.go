// Package keeper keeps Pillion's labels on namespaces: what the webhook for namespaces missed,
// because a template came or went, or Pillion was away.
//
// In: the changes of the templates in force and of namespaces ([Keeper.Changed],
// [Keeper.NamespaceChanged]). Out: writes of one label each. What a namespace is to
// have says injector/kept.
//
// The rules:
//
//   - Only a namespace whose label differs in the cache is written. All replicas do so, without
//     a leader: a patch that another replica was faster with changes nothing.
//   - Nothing is written before templates and namespaces have been read completely.
//   - A label is put on at once. It is taken off once it has not been wanted for a while: too
//     long costs calls, too early leaves pods unverified.
//   - Namespaces that changed just now come first, then labels to put on, then others.
//   - What fails is tried again, later each time. A right that is missing stops all but one try.
//   - A value that somebody set by hand stays, where the label's rule says so: the API server
//     refuses the write, as a conflict, if the cache has not heard of it yet.
//   - Where somebody undoes a write, the next one waits, and longer where the label is taken off:
//     replicas of two versions disagree while one replaces the other.
//
// Imports: injector/kept, templates, and the API's errors. The requests are functions, which
// cmd makes.
package keeper
