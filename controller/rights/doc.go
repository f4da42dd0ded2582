// Package rights names a missing right, and the commands that grant it.
//
// In: an API server's answer, or a right. Out: an error or a text for the person who runs a
// command. It imports nothing of this module and no client.
package rights
