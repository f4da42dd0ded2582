package inspect

// What tests see beside what commands see.

const MostWorkloads = mostWorkloads

var GetURL = getURL

func (r Replica) Name() string { return r.name }
