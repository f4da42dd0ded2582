// Package store keeps the set of templates in force up to date.
//
// In: sources, in the order of their precedence: the embedded library, directories
// of files, the cluster's SidecarTemplates. Out: snapshots (*templates.Set) that
// any goroutine reads without waiting, the news of a change, and what is missing
// before the first complete one, in words. [Once] gives one snapshot of what was read once.
//
// The rules:
//
//   - A bad manifest never replaces a good one. The last good template of the name
//     stays in force, and its entry carries the error until a good manifest comes.
//   - A name belongs to the first source that has it. The same name again, in the
//     same source or in a later one, changes nothing but leaves an error on the entry,
//     which names both places and is logged. An object's verdict is [NameTaken].
//   - What a source no longer has is gone, unless the file it was in cannot be read, or the
//     file is gone and namespaces name the template ([Options.Named]).
//   - Objects that went with their CRD stay in force, with an error, until they are back.
//   - A source that cannot be read keeps what it last had. One whose cache the API server
//     has shown to be wrong is not ready until it has been read anew.
//   - Only files and objects that changed are compiled.
//
// Imports: templates, templates/library, client-go's dynamic client, and controller/follow
// for the cache. It knows nothing of requests, pods or configuration.
package store
