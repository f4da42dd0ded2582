package injector

import (
	"fmt"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// The refusals and warnings of an outcome.
	finalPodDiffers = "the pod differs from a required template: %s (%s)"
	ignoringRecord  = "ignoring %s"
	untrueLabels    = "labels of the pod say that a sidecar is injected that is not: %s; remove them from metadata.labels, or from the pod template of the workload: Pillion sets them itself"
	jobNeverEnds    = "template %s: the Job finishes only when the container %s ends, too, and a sidecar does not end with the work; " +
		"the template's author can make it a native sidecar (spec.initContainers, restartPolicy: Always), or keep it from Jobs by a matchCondition"

	neverStarts = "the container %v never starts: runAsUser is 0 (of the %s) and runAsNonRoot is true (of the %s); set one of them on the container"

	cancelled = "the client cancelled the request while Pillion was %s: %w"

	// The reasons of a template that a pod of this kind cannot have.
	conditionFalse   = "its matchCondition %q is false for this pod"
	conditionMessage = conditionFalse + ": %s"
	systemRequired   = "%s; it is required here: ask the cluster's admin for a template that serves this system or exempts it"
	brokenRequired   = "it is required here, but no good version of it is known: %v"
	tooManyBytes     = "the pod's annotations would have %d bytes, and the API allows %d; the template's files take %d of them: make the files smaller, or mount a ConfigMap"
	annotationTaken  = "the annotation %q of the pod differs from the template's file, which Pillion writes there for the sidecar; remove the annotation from the pod%s"
	volumeTaken      = "the pod has a volume %q of its own, a name that Pillion needs for the template's files; remove the volume from the pod, or rename it%s"
	copiedPod        = "; if the pod is a copy of an injected pod, run pillion uninject, or remove the annotation " + v1alpha1.StatusKey
	changedSince     = " (" + v1alpha1.StatusKey + " says that Pillion wrote it correctly: either another webhook changed it, which spec.verify.allow of the template can allow, " +
		"or the annotation is another pod's; then remove it)"

	// The refusals of an update, with the remedies.
	entersContainer = "the ephemeral container %s targets the container %s; leave out targetContainerName, or target another container"
	mountsVolume    = "the ephemeral container %s mounts the volume %s, which is the template's; mount another volume, or none (spec.verify.allow.volumeMounts of the template can allow the path)"
	otherValue      = "the container %s would have the %s %s; must be %s, as the template renders it, or %s"
	notAllowedValue = "the container %s would have the %s %s; %s, so it may have only %s; or create a new pod"
	notRendered     = "the template does not render it for the pod as it is now"
	failsNow        = "the template fails for the pod as it is now (%s)"
	allowedImage    = "an image that the template's spec.verify.images allows"
	allowedAmount   = "others with spec.verify.allow.resources of the template"

	// The faults of a required template that a pod could not have twice.
	failsAgain   = "it fails for %s that already has it: %w"
	differsAgain = "it renders differently for %s that already has it: %s; a required template must render the same again, or no pod could be verified"

	// The steps that explain a template, and the choice of its version.
	conditionsMet   = "conditions met, parameters valid"
	unknownCanary   = "template %s: cannot tell whether the pod gets the canary %s: its share is chosen by the name of the workload, and the pod has neither a name nor an owner"
	canaryPlace     = "%s has the place %d of 100"
	canaryShare     = "%s, and the share is %d %%"
	canaryUnusable  = "it cannot be used: %v"
	canarySuspended = "it is suspended (spec.suspend)"
	otherNamespaces = "its namespaceSelector does not select the namespace"
	otherPods       = "its podSelector does not select the pod"
	canarySelected  = "selected: version %s in place of the stable one"
)

// Sentence returns the reason with the template's name.
func (t TemplateOutcome) Sentence() string {
	if t.Name == "" || t.named {
		return t.Why
	}
	return "template " + t.Name + ": " + t.Why
}

// Warning returns the warning for a pod that goes without the template.
func (t TemplateOutcome) Warning() string {
	return t.Code.Warning(fmt.Sprintf("without %s: %s", t.Name, t.Why))
}

// Lines returns the lines of a refusal: the message, and the command that explains it. It returns nil for an allowed
// pod.
func (o Outcome) Lines() []string {
	switch {
	case o.Allowed:
		return nil
	case o.Command == "":
		return []string{o.Message}
	}
	return []string{o.Message, "For details run: " + o.Command}
}

// refused returns the message of a refusal. All workloads with the same mistake have the same text.
func refused(refusals []TemplateOutcome, code reason.Code) string {
	return fmt.Sprintf("%s (%s)", sentences(refusals), code)
}

// sentences joins refusals, each with its template's name.
func sentences(refusals []TemplateOutcome) string {
	whys := make([]string, len(refusals))
	for i, t := range refusals {
		whys[i] = t.Sentence()
	}
	return strings.Join(whys, "; ")
}

// deadlineMessage returns the message for a passed deadline, with the remedies.
func (k *progress) deadlineMessage() string {
	time := "the API server's timeout passed"
	if k.allowed > 0 {
		time = fmt.Sprintf("the %s that the API server allows passed", shown(k.allowed))
	}
	return fmt.Sprintf("%s while Pillion was %s: make the pod smaller, or inject fewer templates into it; "+
		"if the pod is small, Pillion is overloaded: try again, or ask the cluster's admin for a longer timeout of the webhook", time, k.doing)
}

// shown writes a duration as people do.
func shown(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
