package directive

// pinned reports whether no template may remove the pod's part at the path, which has field names and an
// element for each item of a list. An empty path is the pod itself. A template may remove any part of the spec
// except its list of containers, any label or all of them, and single annotations.
func pinned(path ...string) bool {
	if len(path) < 2 {
		return true
	}
	switch path[0] {
	case "spec":
		return len(path) == 2 && path[1] == "containers"
	case "metadata":
		return path[1] != "labels" && (path[1] != "annotations" || len(path) == 2)
	}
	return true
}
