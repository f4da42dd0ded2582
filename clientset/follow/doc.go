// Package follow keeps a cache of one resource's objects, and knows how current the cache is.
//
// In: functions that list and watch. Out: a [Cache], with its state: when it was last known
// to be current, whether the API server has shown it to be wrong, and whether the API server
// can be asked at all.
//
// The informer of client-go retries with pauses of up to a minute, starts from whatever an
// API server has in its watch cache, and notices nothing when a watch falls silent. This
// cache retries within a second, starts from a consistent read, and is compared with the
// API server every few seconds by requests whose cost does not grow with the number of
// objects. What proves it wrong also has it read anew.
//
// [Replaced] remembers for a few seconds what is in force no longer.
//
// It may import client-go's tools, but no clients, and no other package of this module.
package follow
