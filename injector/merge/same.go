package merge

// SameContainer reports whether two containers are the same in the given fields, as
// the API takes them, apart from the service account's token, which the API server
// mounts into every container.
func SameContainer(a, b map[string]any, fields []string) bool {
	s := known()
	return equal(s.container, s.only(a, fields), s.only(b, fields))
}

// only returns the container's given fields, without the token.
func (s *shapes) only(container map[string]any, fields []string) map[string]any {
	some := map[string]any{}
	for _, name := range fields {
		if v, ok := container[name]; ok {
			some[name] = v
		}
	}
	stripped, _ := s.withoutToken(s.container, some).(map[string]any)
	if mounts, ok := stripped["volumeMounts"].([]any); ok && len(mounts) == 0 {
		delete(stripped, "volumeMounts")
	}
	return stripped
}

// SameVolume reports whether the API would treat two volumes as the same.
func SameVolume(a, b map[string]any) bool { return equal(known().volumes.Elem(), a, b) }
