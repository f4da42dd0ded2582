package expression

// NamespaceKeys are the keys of labels and annotations of a namespace that expressions spell
// out. Whole reports that an expression reads more than such keys and the namespace's name: it
// goes over all labels, or makes the key as it runs.
type NamespaceKeys struct {
	Labels, Annotations []string
	Whole               bool
}

// Namespace returns what the template's expressions read of the pod's namespace.
func (e *Environment) Namespace() (keys NamespaceKeys) {
	for _, fields := range e.template.reads[namespaceName] {
		if !keys.add(fields) {
			keys.Whole = true
		}
	}
	return keys
}

// add notes the way to a key, from the namespace on. It reports false if the way is not known,
// or ends before a key.
func (k *NamespaceKeys) add(way []string) bool {
	switch {
	case len(way) < 2 || way[0] != "metadata":
		return false
	case way[1] == "name":
		return true
	case len(way) < 3 || way[2] == "":
		return false
	case way[1] == "labels":
		k.Labels = append(k.Labels, way[2])
	case way[1] == "annotations":
		k.Annotations = append(k.Annotations, way[2])
	default:
		return false
	}
	return true
}
