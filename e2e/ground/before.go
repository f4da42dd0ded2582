package ground

// ChartBefore is the package of the chart of the version before.
func (c Checkout) ChartBefore() string { return c.Path("e2e", "testdata", "pillion-before.tgz") }

// PillionBefore is the program of the version that upgrades come from, if .ci/before has built it.
func (c Checkout) PillionBefore() (path string, ok bool) {
	path = c.cache("before", "pillion")
	return path, present(path)
}
