package oracle

import (
	"context"
	"errors"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Oracle asks an API server.
type Oracle struct {
	// Create creates a pod by server-side dry run. Its error is the API server's.
	Create func(ctx context.Context, pod map[string]any) error
}

// Pod is a sample pod, before and after a template was merged into it. The maps are not modified.
type Pod struct {
	Name          string
	Before, After map[string]any
}

// ErrNoPod means that no sample pod gets the template.
var ErrNoPod = errors.New("no sample pod gets the template")

// ValidateAll returns why the API server calls every one of the pods invalid. It returns no cause if one is
// valid. It returns an error if the API server did not say whether a pod is valid, and ErrNoPod without
// pods. The causes are those of the first pod.
func (o Oracle) ValidateAll(ctx context.Context, t *templates.Template, pods []Pod) ([]Cause, error) {
	if len(pods) == 0 {
		return nil, ErrNoPod
	}
	var first []Cause
	var unanswered error
	for _, pod := range pods {
		causes, err := o.Validate(ctx, t, pod.After)
		switch {
		case err != nil && !IsValid(err):
			unanswered = err
		case len(causes) == 0:
			return nil, nil
		case first == nil:
			first = causes
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), unanswered)
		}
	}
	if unanswered != nil {
		return nil, unanswered
	}
	// Where the API server calls all pods invalid, the template has no part in it.
	if causes, err := o.Validate(ctx, t, pods[0].Before); len(causes) > 0 || err != nil && !IsValid(err) {
		return nil, errors.Join(errors.New("the API server refuses sample pods without the template, too"), err)
	}
	return first, nil
}

// Validate returns why the API server calls a pod invalid, with the places in the template. The error is a
// refusal for another reason than the pod's form, such as Pod Security, or says that there was no answer.
func (o Oracle) Validate(ctx context.Context, t *templates.Template, pod map[string]any) ([]Cause, error) {
	pod = o.prepare(pod)
	err := o.Create(ctx, pod)
	if causes := causesOf(err, t, pod); len(causes) > 0 {
		return causes, nil
	}
	return nil, err
}

// IsValid reports whether an error of [Oracle.Validate] says that the pod is valid. The API server validates a
// pod before Pod Security judges it.
func IsValid(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "violates PodSecurity")
}

// prepare returns a pod that Pillion injects nothing into, and that depends on no object that may be
// missing in the namespace: a missing ServiceAccount is told before the pod is validated.
func (o Oracle) prepare(pod map[string]any) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	spec, _ := pod["spec"].(map[string]any)
	own := map[string]any{}
	maps.Copy(own, annotations)
	own[v1alpha1.InjectKey] = "false"
	meta := map[string]any{"generateName": "pillion-sample-", "annotations": own}
	if labels, ok := metadata["labels"]; ok {
		meta["labels"] = labels
	}
	spec = maps.Clone(spec)
	delete(spec, "serviceAccountName")
	delete(spec, "serviceAccount")
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
}
