package param

import "errors"

// Mistakes returns the mistakes in the annotations of one level alone: values that are not allowed, and
// parameters that may not be set at that level. A missing annotation is no mistake, since the other level may
// have it. It returns at most one mistake for each parameter, in the parameters' order. From is [FromNamespace]
// or [FromPod].
func (s *Set) Mistakes(from Origin, annotations map[string]string) []*Error {
	l := s.level(from, annotations)
	var found []*Error
	for _, p := range s.parameters {
		var mistake *Error
		if err := s.resolve(p, [2]*level{l, {}}, newValues()); errors.As(err, &mistake) {
			found = append(found, mistake)
		}
	}
	return found
}
