package apirules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// system checks what a pod sets of the other operating systems, where spec.os says its own. A
// node selector does not count for the API server.
func (c *checker) system(spec *corev1.PodSpec, at *field.Path) {
	if spec.OS == nil {
		return
	}
	switch name := spec.OS.Name; name {
	case "":
		c.add(field.Required(at.Child("os", "name"), ""))
		return
	case corev1.Linux, corev1.Windows:
	default:
		c.add(field.NotSupported(at.Child("os"), name, []corev1.OSName{corev1.Linux, corev1.Windows}))
		return
	}
	if s := spec.SecurityContext; s != nil {
		c.others(spec, at.Child("securityContext"), s.WindowsOptions != nil, map[string]bool{
			"appArmorProfile": s.AppArmorProfile != nil, "seLinuxOptions": s.SELinuxOptions != nil, "seccompProfile": s.SeccompProfile != nil, "fsGroup": s.FSGroup != nil,
			"fsGroupChangePolicy": s.FSGroupChangePolicy != nil, "sysctls": len(s.Sysctls) > 0, "runAsUser": s.RunAsUser != nil, "runAsGroup": s.RunAsGroup != nil,
			"supplementalGroups": s.SupplementalGroups != nil, "supplementalGroupsPolicy": s.SupplementalGroupsPolicy != nil, "seLinuxChangePolicy": s.SELinuxChangePolicy != nil,
		})
	}
	c.others(spec, at, false, map[string]bool{
		"hostUsers": spec.HostUsers != nil, "hostPID": spec.HostPID, "hostIPC": spec.HostIPC, "shareProcessNamespace": spec.ShareProcessNamespace != nil,
	})
}

// systemOf checks the security context of one container likewise.
func (c *checker) systemOf(container *Placed, spec *corev1.PodSpec, at *field.Path) {
	if s := container.SecurityContext; s != nil && spec.OS != nil {
		c.others(spec, at.Child("securityContext"), s.WindowsOptions != nil, map[string]bool{
			"appArmorProfile": s.AppArmorProfile != nil, "seLinuxOptions": s.SELinuxOptions != nil, "seccompProfile": s.SeccompProfile != nil, "capabilities": s.Capabilities != nil,
			"readOnlyRootFilesystem": s.ReadOnlyRootFilesystem != nil, "privileged": s.Privileged != nil, "allowPrivilegeEscalation": s.AllowPrivilegeEscalation != nil,
			"procMount": s.ProcMount != nil, "runAsUser": s.RunAsUser != nil, "runAsGroup": s.RunAsGroup != nil,
		})
	}
}

// others reports fields of the other system: windowsOptions, or those of Linux that are set.
func (c *checker) others(spec *corev1.PodSpec, at *field.Path, windowsOptions bool, linux map[string]bool) {
	switch {
	case spec.OS.Name == corev1.Linux && windowsOptions:
		c.whole("", field.Forbidden(at.Child("windowsOptions"), "windows options cannot be set for a linux pod"))
	case spec.OS.Name == corev1.Windows:
		for name, set := range linux {
			if set {
				c.whole("", field.Forbidden(at.Child(name), "cannot be set for a windows pod"))
			}
		}
	}
}
