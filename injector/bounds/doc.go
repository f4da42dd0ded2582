// Package bounds limits the memory and the connections of a server.
//
// In: JSON that is about to be decoded, tenants that want memory, connections. Out: an
// estimate of what the JSON takes decoded, the memory as soon as it is free, and
// connections that are closed in favour of newer ones.
//
// May import: the standard library. No other package of this module.
package bounds
