package main

import (
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// denial is how API servers say who lacks which right.
var denial = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (?:in the namespace "([^"]*)"|at the cluster scope)`)

// granting adds to an error about a right that the user lacks the commands that grant the
// right. Other errors stay as they are.
func granting(err error) error {
	found := denial.FindStringSubmatch(fmt.Sprint(err))
	if !apierrors.IsForbidden(err) || found == nil {
		return err
	}
	user, verb, resource, group, namespace := found[1], found[2], found[3], found[4], found[5]
	to := "--user=" + user
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		to = "--serviceaccount=" + account
	}
	if group != "" {
		resource += "." + group
	}
	kind, where, flags, hint := "clusterrole", "in all namespaces", "", ""
	if namespace != "" {
		kind, where, flags = "role", "in namespace "+namespace, " -n "+namespace
	} else if resource == "pods" {
		hint = "For one namespace: pillion status ns/NAME. "
	}
	name := "pillion-" + verb + "-" + strings.ReplaceAll(found[3], "/", "-")
	return fmt.Errorf("missing permission: the verb %s on the resource %s %s. %sWho may grant it: kubectl%s create %s %s --verb=%s --resource=%s; kubectl%s create %sbinding %s --%s=%s %s: %w",
		verb, resource, where, hint, flags, kind, name, verb, resource, flags, kind, name, kind, name, to, err)
}
