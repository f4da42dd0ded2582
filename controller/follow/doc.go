// Package follow has a cache of one resource's objects, which a reflector of client-go fills.
//
// In: functions that list and watch. Out: a [Cache], with its age by events and bookmarks, and with the error of the
// last failed read.
//
// The first read is consistent. Lists and watches that fail are retried within a second.
//
// It may import client-go's tools, but no clients, and no other package of this module but controller/waiting.
package follow
