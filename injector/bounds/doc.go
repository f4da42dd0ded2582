// Package bounds keeps what a server holds within what it may hold, whoever sends.
//
// In: JSON that is about to be decoded, tenants that want memory, connections. Out: an
// estimate of what the JSON takes decoded, the memory as soon as it is free, and
// connections that are closed in favour of newer ones.
//
// May import: the standard library. No other package of this module.
package bounds
