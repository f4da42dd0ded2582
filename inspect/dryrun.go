package inspect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// addAnswer creates the pod by dry run, and adds the API server's answer to the explanation. If the
// answer contradicts the rules, it becomes the verdict.
func (s *Session) addAnswer(ctx context.Context, explained *explain.Pod, pod map[string]any) error {
	created, warnings, err := s.Live.createUnnamed(ctx, explained.Namespace, pod)
	switch {
	case missingRight(err) != nil:
		s.Live.addGap("the API server's answer to a dry run of the pod", err)
		explained.TrustFailure()
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		explained.SetDryRun(explain.DryRun{Text: "refused: " + err.Error(), Warnings: warnings})
	default:
		rec, _ := record.Parse(created)
		answer := explain.DryRun{Allowed: true, Text: "admitted, without a template", Templates: slices.Sorted(maps.Keys(rec.Templates)), Warnings: warnings}
		var versions []string
		for _, name := range answer.Templates {
			versions = append(versions, fmt.Sprintf("%s (version %s)", name, rec.Hash(name)))
		}
		if len(versions) > 0 {
			answer.Text = "admitted, with " + strings.Join(versions, ", ")
		}
		if c := explained.Called; c != nil && !c.IsKnown && len(versions) > 0 {
			*c = explain.CallState{IsKnown: true, Now: true, Why: "yes: the pod of the dry run came back injected", Then: c.Then}
		}
		explained.SetDryRun(answer)
	}
	return nil
}

// createUnnamed creates the pod by dry run, with a generated name.
func (c *Cluster) createUnnamed(ctx context.Context, namespace string, pod map[string]any) (created map[string]any, warnings []string, err error) {
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(pod)}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	if u.GetGenerateName() == "" {
		u.SetGenerateName(strings.TrimSuffix(u.GetName(), "-") + "-")
	}
	u.SetName("")
	u.SetNamespace(namespace) // a sample pod has another namespace
	u.SetResourceVersion("")
	u.SetUID("")
	owners := u.GetOwnerReferences()
	for i := range owners {
		owners[i].BlockOwnerDeletion = nil // to set it needs a right on the owner
	}
	u.SetOwnerReferences(owners)
	made, warnings, err := c.DryRun(ctx, namespace, &u)
	if err != nil {
		return nil, warnings, err
	}
	created, err = exactPod(made)
	return created, warnings, err
}
