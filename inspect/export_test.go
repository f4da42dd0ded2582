package inspect

// Exports for tests.

const MaxWorkloads = maxWorkloads

func (r Replica) Name() string { return r.name }
