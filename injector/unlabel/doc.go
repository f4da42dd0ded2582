// Package unlabel says which labels of a namespace are Pillion's, to be taken off when Pillion
// goes.
//
// In: a namespace's metadata with its managed fields. Out: a merge patch, or none.
//
// The rules:
//
//   - PREFIX/required is Pillion's, whoever wrote it.
//   - PREFIX/injection is Pillion's where nobody else owns it. A value that Pillion's webhook put
//     into somebody's write has no owner, because managed fields do not see what webhooks do.
//   - What somebody else owns was set by hand, and stays.
//   - A patch has the resourceVersion: a hand that is faster wins.
//
// Imports: injector/kept, templates, the API's types.
package unlabel
