// Package rawjson decodes and encodes JSON without loss: numbers keep all their digits.
//
// In: JSON text, or decoded values: map[string]any, []any, string, json.Number, bool and nil.
// Out: the same, the other way round. [List] reads lists of the API item by item.
package rawjson
