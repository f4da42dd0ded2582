package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counted are the lines of kube-apiserver's metrics that count calls of webhooks, and
// evaluations of MutatingAdmissionPolicies.
var counted = regexp.MustCompile(`(?m)^(?:apiserver_admission_webhook_request_total\{.*\bname="([^"]+)"|apiserver_mutating_admission_policy_check_total\{.*\bpolicy="([^"]+)").*\} ([0-9.e+]+)$`)

// calls are how often each webhook and each policy was called so far, by its name.
func calls(metrics []byte) (map[string]float64, error) {
	by := map[string]float64{}
	for _, found := range counted.FindAllStringSubmatch(string(metrics), -1) {
		n, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", found[0], err)
		}
		by[found[1]+found[2]] += n
	}
	return by, nil
}

// perPod tells how often each was called for one of n pods in between.
func perPod(before, after map[string]float64, n int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if more := after[name] - before[name]; more > 0 {
			parts = append(parts, fmt.Sprintf("%s:%.3g", name, more/float64(n)))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ",")
}
