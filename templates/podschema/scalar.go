package podschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// numbers are the bounds of a number. The zero value has none.
type numbers struct{ least, most int64 }

var (
	ports    = numbers{1, math.MaxUint16}
	seconds  = numbers{0, math.MaxInt32}
	positive = numbers{1, math.MaxInt32}
	weights  = numbers{1, 100}
)

// numberPaths are fields with bounds, which the schema of client-go lacks. They are ports, durations, and the
// numbers in which people mistype. A test holds them to a real API server.
var numberPaths = map[string]numbers{
	"spec.activeDeadlineSeconds":                                                          positive,
	"spec.topologySpreadConstraints[].maxSkew":                                            positive,
	"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight": weights,
	"spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight":  weights,
	"spec.containers[].ports[].containerPort":                                             ports,
	"spec.containers[].ports[].hostPort":                                                  {0, math.MaxUint16},
	"spec.containers[].lifecycle.preStop.sleep.seconds":                                   {0, math.MaxInt64},
	"spec.containers[].livenessProbe.grpc.port":                                           ports,
	"spec.containers[].livenessProbe.initialDelaySeconds":                                 seconds,
	"spec.containers[].livenessProbe.timeoutSeconds":                                      seconds,
	"spec.containers[].livenessProbe.periodSeconds":                                       seconds,
	"spec.containers[].livenessProbe.successThreshold":                                    seconds,
	"spec.containers[].livenessProbe.failureThreshold":                                    seconds,
	"spec.volumes[].projected.sources[].serviceAccountToken.expirationSeconds":            {600, 1 << 32},
}

// setScalars sets the meaning of quantities, ports and bounded numbers.
func setScalars(pod *Type) {
	typeAt(pod, "spec.overhead").Elem().means.quantity = true
	typeAt(pod, "spec.containers[].livenessProbe.httpGet.port").means.intOrString = true
	for path, bounds := range numberPaths {
		typeAt(pod, path).means.numbers = bounds
	}
}

// Validate returns an error if the API takes no scalar v of type t, although v has the right kind. The error
// completes a sentence about the value: "is no quantity; write 64Mi".
func (t *Type) Validate(v any) error {
	switch {
	case t.means.quantity:
		return validateQuantity(v)
	case t.means.intOrString:
		return validatePort(v)
	case t.means.numbers != numbers{}:
		return t.means.numbers.validate(v)
	}
	return nil
}

func (n numbers) validate(v any) error {
	number, ok := v.(json.Number)
	if !ok {
		return nil
	}
	if i, err := number.Int64(); err != nil || i < n.least || i > n.most {
		return fmt.Errorf("is not from %d to %d", n.least, n.most)
	}
	return nil
}

// validatePort validates a port that is a number or the name of a container's port.
func validatePort(v any) error {
	name, ok := v.(string)
	switch {
	case !ok:
		return ports.validate(v)
	case number.MatchString(name):
		return errors.New("is text, and the name of a port has a letter; for the number write no quotes, or ${int(…)}")
	case len(validation.IsValidPortName(name)) > 0:
		return errors.New("is no name of a port; write a number, or at most 15 of a-z, 0-9 and -, with a letter")
	}
	return nil
}

func validateQuantity(v any) error {
	q, ok := ParseQuantity(v)
	switch {
	case !ok:
		text, _ := v.(string)
		return fmt.Errorf("is no quantity; write %s", quantityLike(text))
	case q.Sign() < 0:
		return errors.New("is negative; write a quantity of 0 or more")
	}
	return nil
}

var (
	number = regexp.MustCompile(`\A[0-9]+\z`)
	// unit matches a number with a unit as people write it.
	unit = regexp.MustCompile(`\A\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT])([iI]?)[bB]?\s*\z`)
)

// quantityLike suggests a quantity in place of a text that is none.
func quantityLike(text string) string {
	found := unit.FindStringSubmatch(text)
	if found == nil || len(text) > maxQuantityText {
		return "a number with a unit or without, such as 100m, 64M or 64Mi"
	}
	amount, prefix := found[1], strings.ToUpper(found[2])
	if binary := amount + prefix + "i"; found[3] != "" {
		return binary
	} else if prefix == "K" {
		return amount + "k or " + binary
	} else {
		return amount + prefix + " or " + binary
	}
}
