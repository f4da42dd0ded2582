package expression

import "strings"

// ParametersOf returns the parameters that an expression reads, itself or by the variables
// that it reads, each once.
func (n *Names) ParametersOf(e *Expression) []string {
	var names []string
	seen := map[string]bool{}
	var walk func(*Expression)
	walk = func(e *Expression) {
		if e == nil {
			return
		}
		for _, read := range e.Reads() {
			if seen[read] {
				continue
			}
			seen[read] = true
			if name, ok := strings.CutPrefix(read, paramsName+"."); ok {
				names = append(names, name)
			} else if name, ok := strings.CutPrefix(read, variablesName+"."); ok {
				walk(n.variables[name])
			}
		}
	}
	walk(e)
	return names
}
