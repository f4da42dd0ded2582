package podschema

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// canonicalNumber returns the same text for all spellings of a JSON number, without expanding its exponent: 80,
// 80.0 and 8e1 become "80". It returns any other text as it is.
func canonicalNumber(text string) string {
	mantissa, exponent := text, int64(0)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.ParseInt(text[i+1:], 10, 32)
		if err != nil {
			return text
		}
		mantissa, exponent = text[:i], e
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent -= int64(len(fraction))
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant))
	if significant == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	if exponent >= 0 && exponent <= 20 {
		return sign + significant + strings.Repeat("0", int(exponent))
	}
	return sign + significant + "e" + strconv.FormatInt(exponent, 10)
}

// maxQuantityText bounds the text that is parsed as a quantity. No real quantity is longer, and parsing is
// expensive.
const maxQuantityText = 40

// Quantity writes a quantity, given as text or as a number, as a plain number: "1000m", "1" and 1 become "1",
// 64Mi becomes "67108864". It reports false if v is no quantity.
func Quantity(v any) (string, bool) {
	q, ok := ParseQuantity(v)
	if !ok {
		return "", false
	}
	return canonicalNumber(q.AsDec().String()), true
}

// ParseQuantity parses a quantity, given as text or as a number, and keeps its form: 64Mi is written as 64Mi
// again.
func ParseQuantity(v any) (resource.Quantity, bool) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = string(v)
	default:
		return resource.Quantity{}, false
	}
	if len(text) > maxQuantityText || hugeExponent(text) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// hugeExponent reports whether a text is a number in scientific notation that is too large or too small for a
// cheap comparison.
func hugeExponent(text string) bool {
	i := strings.IndexAny(text, "eE")
	if i < 0 || i == len(text)-1 {
		return false
	}
	e, err := strconv.Atoi(text[i+1:])
	return err == nil && (e > 30 || e < -30)
}
