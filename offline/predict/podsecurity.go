package predict

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/pillion-dev/pillion/offline/apirules"
)

// podSecurity finds what the namespace's Pod Security levels forbid. A namespace without
// labels has the cluster's defaults, which no file tells.
func (p *prediction) podSecurity() {
	privileged := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	levels, _ := api.PolicyToEvaluate(p.Namespace.Labels, api.Policy{Enforce: privileged, Warn: privileged, Audit: privileged})
	for _, mode := range []struct {
		name  string
		level api.LevelVersion
	}{{"enforce", levels.Enforce}, {"warn", levels.Warn}, {"audit", levels.Audit}} {
		if mode.level.Level == api.LevelPrivileged || mode.name != "enforce" && mode.level == levels.Enforce {
			continue
		}
		why := apirules.Forbidden(mode.level, p.after)
		if why == "" {
			continue
		}
		had := apirules.Forbidden(mode.level, p.before)
		if why == had {
			continue // the injection adds nothing
		}
		does := map[string]string{"enforce": "refuses the pod", "warn": "warns of the pod", "audit": "notes the pod in the audit log"}[mode.name]
		p.add(Trouble{
			Source: PodSecurity, Refused: mode.name == "enforce" && had == "", AlsoWithout: had != "",
			Says: fmt.Sprintf("Pod Security %s, since the namespace %s has pod-security.kubernetes.io/%s: %s: %s", does, p.Namespace.Name, mode.name, mode.level.Level, why),
		}, p.accused(why)...)
	}
}

// accused are the places that a sentence about Pod Security is about.
func (p *prediction) accused(why string) [][]string {
	var paths [][]string
	for _, c := range p.sidecars {
		if strings.Contains(why, `"`+c.Name+`"`) {
			paths = append(paths, []string{"spec", c.List, c.Name, "securityContext"}, []string{"spec", c.List, c.Name, "name"})
		}
	}
	had := slices.Clone(p.before.Spec.Volumes)
	for _, v := range p.after.Spec.Volumes {
		added := !slices.ContainsFunc(had, func(h corev1.Volume) bool { return h.Name == v.Name })
		if added && strings.Contains(why, `"`+v.Name+`"`) {
			paths = append(paths, []string{"spec", "volumes", v.Name})
		}
	}
	return paths
}
