// Package krm reads and writes what a KRM function is given and gives back: a ResourceList of
// the KRM Functions Specification, config.kubernetes.io/v1.
//
// In: the bytes of standard input. Out: the items and the functionConfig, numbers kept as
// json.Number; and the list again as YAML, with results, and with changed items. The others stay as
// they came.
//
// May import: injector/workload, for YAML.
package krm
