// Package follow keeps a cache of one resource's objects, and knows how current the cache is.
//
// In: functions that list and watch. Out: a [Cache], with its state: when it was last known
// to be current, whether the API server has shown it to be wrong, and whether the API server
// can be asked at all.
//
// The cache is a store of client-go that a reflector of client-go fills. Lists and watches that
// fail are retried within a second, or two while the API server does not know the resource, and the
// first read is consistent. Beside the reflector, a check compares the cache with the API server:
// every ten seconds, soon after a watch has ended, and every second while something is wrong. Its cost does not grow with the number of objects.
// What proves the cache wrong also has it read anew.
//
// It may import client-go's tools, but no clients, and no other package of this module.
package follow
