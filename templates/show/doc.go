// Package show writes somebody else's values and messages into ours: quoted or
// escaped, and cut, so that they cannot break a line of a log, command a terminal or grow
// without bound.
//
// In: text and JSON values that a team or an author wrote. Out: text for a message, lines for a
// terminal, JSON for both.
// It imports nothing of this module.
package show
