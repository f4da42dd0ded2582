package param

import "errors"

// Mistakes returns what is wrong with the annotations of one level by themselves: values that
// are not allowed, and parameters that may not be set there. One that is missing can still
// come from the other level, and is no mistake. Of each parameter it returns one at most, in
// the parameters' order. From is [FromNamespace] or [FromPod].
func (s *Set) Mistakes(from Origin, annotations map[string]string) []*Error {
	l := &level{origin: from}
	for key, value := range annotations {
		l.take(s.prefix, key, value)
	}
	if len(l.values) == 0 {
		return nil
	}
	var found []*Error
	for _, p := range s.parameters {
		var mistake *Error
		if err := s.resolve(p, [2]*level{l, {}}, newValues()); errors.As(err, &mistake) {
			found = append(found, mistake)
		}
	}
	return found
}
