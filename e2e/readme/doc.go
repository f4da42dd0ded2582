// Package readme reads the commands of the README and the pages that it links to, in the order in
// which a newcomer meets them.
//
// In: a page's text. Out: commands, each with the output that the README shows. It
// imports the standard library alone.
package readme
