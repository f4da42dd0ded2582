// Package readme reads the commands of the README and of the pages of docs/, in the order in
// which a newcomer meets them.
//
// In: a page's text. Out: commands, each with the output that the page shows. It imports the
// standard library alone.
package readme
