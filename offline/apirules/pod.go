package apirules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *checker) pod(pod *corev1.Pod) {
	metadata, spec := field.NewPath("metadata"), field.NewPath("spec")
	c.add(metav1validation.ValidateLabels(pod.Labels, metadata.Child("labels"))...)
	c.add(apivalidation.ValidateAnnotations(pod.Annotations, metadata.Child("annotations"))...)
	c.add(metav1validation.ValidateLabels(pod.Spec.NodeSelector, spec.Child("nodeSelector"))...)
	volumes := c.volumes(pod.Spec.Volumes, spec.Child("volumes"))
	names, hostPorts := sets.Set[string]{}, sets.Set[string]{}
	for _, container := range Containers(pod) {
		at := spec.Child(container.List).Key(container.Name)
		c.container = container.Name
		if names.Has(container.Name) {
			c.whole(container.Name, field.Duplicate(at.Child("name"), container.Name))
		}
		names.Insert(container.Name)
		c.of(&container, at, volumes)
		c.systemOf(&container, &pod.Spec, at)
		c.hostPorts(&container, at, hostPorts)
	}
	c.container = ""
	for _, name := range []struct {
		field, value string
		problems     func(string) []string
	}{
		{"serviceAccountName", pod.Spec.ServiceAccountName, validation.IsDNS1123Subdomain},
		{"priorityClassName", pod.Spec.PriorityClassName, validation.IsDNS1123Subdomain},
		{"hostname", pod.Spec.Hostname, validation.IsDNS1123Label},
		{"subdomain", pod.Spec.Subdomain, validation.IsDNS1123Label},
	} {
		if name.value != "" {
			c.invalid(spec.Child(name.field), name.value, name.problems(name.value))
		}
	}
	if name := pod.Spec.RuntimeClassName; name != nil {
		c.invalid(spec.Child("runtimeClassName"), *name, validation.IsDNS1123Subdomain(*name))
	}
	c.system(&pod.Spec, spec)
	c.sums(pod, spec.Child("resources"))
}

// volumes returns the names of the volumes and devices.
func (c *checker) volumes(volumes []corev1.Volume, at *field.Path) sets.Set[string] {
	names := sets.Set[string]{}
	for _, v := range volumes {
		at := at.Key(v.Name)
		c.named(at, v.Name, validation.IsDNS1123Label)
		if names.Has(v.Name) {
			c.whole(v.Name, field.Duplicate(at.Child("name"), v.Name))
		}
		names.Insert(v.Name)
		if v.ConfigMap != nil && v.ConfigMap.Name == "" {
			c.add(field.Required(at.Child("configMap", "name"), ""))
		}
		if v.Secret != nil && v.Secret.SecretName == "" {
			c.add(field.Required(at.Child("secret", "secretName"), ""))
		}
		if v.HostPath != nil && (v.HostPath.Path == "" || strings.Contains("/"+v.HostPath.Path+"/", "/../")) {
			c.add(field.Invalid(at.Child("hostPath", "path"), v.HostPath.Path, "must be a path without '..'"))
		}
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "" {
			c.add(field.Required(at.Child("persistentVolumeClaim", "claimName"), ""))
		}
	}
	return names
}

// named checks the name of an item, which it must have.
func (c *checker) named(at *field.Path, name string, problems func(string) []string) {
	if name == "" {
		c.add(field.Required(at.Child("name"), ""))
		return
	}
	c.invalid(at.Child("name"), name, problems(name))
}

// of checks one container.
func (c *checker) of(container *Placed, at *field.Path, volumes sets.Set[string]) {
	c.named(at, container.Name, validation.IsDNS1123Label)
	switch {
	case container.Image == "":
		c.add(field.Required(at.Child("image"), ""))
	case strings.TrimSpace(container.Image) != container.Image:
		c.add(field.Invalid(at.Child("image"), container.Image, "must not have leading or trailing whitespace"))
	}
	if p := container.RestartPolicy; p != nil && *p != "Always" && *p != "Never" && *p != "OnFailure" {
		c.add(field.NotSupported(at.Child("restartPolicy"), *p, []string{"Always", "Never", "OnFailure"}))
	}
	if p := container.ImagePullPolicy; p != "" && p != corev1.PullAlways && p != corev1.PullNever && p != corev1.PullIfNotPresent {
		c.add(field.NotSupported(at.Child("imagePullPolicy"), p, []string{"Always", "IfNotPresent", "Never"}))
	}
	if p := container.TerminationMessagePolicy; p != "" && p != corev1.TerminationMessageReadFile && p != corev1.TerminationMessageFallbackToLogsOnError {
		c.add(field.NotSupported(at.Child("terminationMessagePolicy"), p, []string{"FallbackToLogsOnError", "File"}))
	}
	c.environment(container.Env, at.Child("env"))
	c.ports(container.Ports, at.Child("ports"))
	c.mounts(container.VolumeMounts, at.Child("volumeMounts"), volumes)
	c.probes(container, at)
	c.resources(container.Resources, at.Child("resources"))
	if s := container.SecurityContext; s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			c.add(field.Invalid(at.Child("securityContext"), s.Privileged, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
	}
}

func (c *checker) environment(variables []corev1.EnvVar, at *field.Path) {
	for _, e := range variables {
		at := at.Key(e.Name)
		c.named(at, e.Name, validation.IsRelaxedEnvVarName)
		if e.Value != "" && e.ValueFrom != nil {
			c.add(field.Invalid(at.Child("valueFrom"), e.Name, "may not be specified when `value` is not empty"))
		}
		if e.ValueFrom != nil && *e.ValueFrom == (corev1.EnvVarSource{}) {
			c.add(field.Invalid(at.Child("valueFrom"), e.Name, "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"))
		}
	}
}

func (c *checker) ports(ports []corev1.ContainerPort, at *field.Path) {
	names := sets.Set[string]{}
	for _, p := range ports {
		at := at.Key(fmt.Sprint(p.ContainerPort))
		c.invalid(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))
		if p.HostPort != 0 {
			c.invalid(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))
		}
		if p.Name != "" {
			c.invalid(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))
			if names.Has(p.Name) {
				c.within(p.Name, field.Duplicate(at.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP {
			c.add(field.NotSupported(at.Child("protocol"), p.Protocol, []string{"SCTP", "TCP", "UDP"}))
		}
	}
}

// hostPorts checks that no two containers want one port of the node. Init containers run one
// by one, so each is checked for itself.
func (c *checker) hostPorts(container *Placed, at *field.Path, taken sets.Set[string]) {
	if container.List == "initContainers" {
		taken = sets.Set[string]{}
	}
	for _, p := range container.Ports {
		if p.HostPort == 0 {
			continue
		}
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		key := fmt.Sprintf("%s/%s/%d", protocol, p.HostIP, p.HostPort)
		if taken.Has(key) {
			c.whole(key, field.Duplicate(at.Child("ports").Key(fmt.Sprint(p.ContainerPort)).Child("hostPort"), key))
		}
		taken.Insert(key)
	}
}

func (c *checker) mounts(mounts []corev1.VolumeMount, at *field.Path, volumes sets.Set[string]) {
	paths := sets.Set[string]{}
	for _, m := range mounts {
		at := at.Key(m.MountPath)
		switch {
		case m.Name == "":
			c.add(field.Required(at.Child("name"), ""))
		case !volumes.Has(m.Name):
			c.whole(m.Name, field.NotFound(at.Child("name"), m.Name))
			c.problems[len(c.problems)-1].NoVolume = true
		}
		if m.MountPath == "" {
			c.add(field.Required(at.Child("mountPath"), ""))
		}
		if paths.Has(m.MountPath) {
			c.within(m.MountPath, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		paths.Insert(m.MountPath)
		if m.SubPath != "" && m.SubPathExpr != "" {
			c.add(field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		for _, path := range []string{m.SubPath, m.SubPathExpr} {
			if strings.HasPrefix(path, "/") || strings.Contains("/"+path+"/", "/../") {
				c.add(field.Invalid(at.Child("subPath"), path, "must be a relative path without '..'"))
			}
		}
	}
}

func (c *checker) probes(container *Placed, at *field.Path) {
	once := container.List == "initContainers" && !IsNative(&container.Container)
	if once && container.Lifecycle != nil {
		c.add(field.Forbidden(at.Child("lifecycle"), "may not be set for init containers without restartPolicy=Always"))
	}
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", container.LivenessProbe}, {"readinessProbe", container.ReadinessProbe}, {"startupProbe", container.StartupProbe}} {
		if p.probe == nil {
			continue
		}
		at := at.Child(p.name)
		if once {
			c.add(field.Forbidden(at, "may not be set for init containers without restartPolicy=Always"))
			continue
		}
		handlers := 0
		for _, has := range []bool{p.probe.HTTPGet != nil, p.probe.TCPSocket != nil, p.probe.Exec != nil, p.probe.GRPC != nil} {
			if has {
				handlers++
			}
		}
		switch {
		case handlers == 0:
			c.add(field.Required(at, "must specify a handler type"))
		case handlers > 1:
			c.within(p.name, field.Forbidden(at, "may not specify more than 1 handler type"))
		}
		for name, seconds := range map[string]int32{
			"initialDelaySeconds": p.probe.InitialDelaySeconds, "timeoutSeconds": p.probe.TimeoutSeconds, "periodSeconds": p.probe.PeriodSeconds,
			"successThreshold": p.probe.SuccessThreshold, "failureThreshold": p.probe.FailureThreshold,
		} {
			if seconds < 0 {
				c.add(field.Invalid(at.Child(name), seconds, "must be greater than or equal to 0"))
			}
		}
		if p.name != "readinessProbe" && p.probe.SuccessThreshold > 1 {
			c.add(field.Invalid(at.Child("successThreshold"), p.probe.SuccessThreshold, "must be 1"))
		}
	}
}
