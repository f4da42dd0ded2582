package inspect

// Exports for tests.

const MaxWorkloads = maxWorkloads

var GetURL = getURL

func (r Replica) Name() string { return r.name }
