// Package readme reads the commands of the README, in the order in which a newcomer meets
// them.
//
// In: the README's text. Out: commands, each with the output that the README shows. It
// imports the standard library alone.
package readme
