package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/inspect/explain"
)

// creator is an object whose controller creates pods of a workload: the workload itself, a ReplicaSet
// of a Deployment, or a Job of a CronJob.
type creator struct {
	kind, name string
	// superseded means that its pods have an older pod template. The Deployment replaces them.
	superseded bool
}

// creatorsOf returns the creators of a workload's pods, by UID.
func (l *Live) creatorsOf(ctx context.Context, namespace string, o Object, workload *unstructured.Unstructured) (map[types.UID]creator, error) {
	all := map[types.UID]creator{workload.GetUID(): {kind: o.Kind, name: o.Name}}
	between := map[string]schema.GroupVersionResource{"Deployment": gvr("apps", "v1", "replicasets"), "CronJob": gvr("batch", "v1", "jobs")}[o.Kind]
	if between.Resource == "" {
		return all, nil
	}
	list, err := l.Objects.Resource(between).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the %s of %s/%s: %w", between.Resource, strings.ToLower(o.Kind), o.Name, err)
	}
	for _, m := range list.Items {
		if of := metav1.GetControllerOf(&m); of != nil && of.UID == workload.GetUID() {
			all[m.GetUID()] = creator{m.GetKind(), m.GetName(), o.Kind == "Deployment" && owner.Superseded(workload.Object, m.Object)}
		}
	}
	return all, nil
}

// addRunning compares the pods of a workload with new ones, and adds the reason why its controller could
// not create a pod.
func (s *Session) addRunning(ctx context.Context, explained *explain.Pod, ns Namespace, o Object, workload *unstructured.Unstructured) error {
	r := &explain.Running{OutdatedPods: []explain.RunningPod{}}
	explained.Running = r
	creators, err := s.Live.creatorsOf(ctx, ns.Name, o, workload)
	if err != nil {
		r.Unread = s.Live.unreadPods(err)
		return nil
	}
	if r.Failure, err = s.Live.failure(ctx, ns.Name, creators); err != nil {
		s.Live.addGap("whether pods could not be created", err)
	}
	injected := map[string]int{}
	_, err = s.Live.podsOf(workload).Each(ctx, ns.Name, func(pod map[string]any) error {
		of, _ := owner.Controller(pod)
		by, mine := creators[types.UID(of.UID)]
		if !mine {
			return nil
		}
		if s.Live.Templates == nil {
			rec, _ := record.Parse(pod)
			r.Pods++
			injected[strings.Join(slices.Sorted(maps.Keys(rec.Templates)), ", ")]++
			return nil
		}
		return s.addRunningPod(ctx, r, ns, pod, by)
	})
	switch {
	case apierrors.IsForbidden(err):
		r.Unread = s.Live.unreadPods(err)
		return nil
	case err != nil:
		return fmt.Errorf("reading the pods of %s/%s: %w", o.Kind, o.Name, err)
	case s.Live.Templates == nil:
		r.Unread = &explain.Note{Text: formatInjected(injected)}
		return nil
	}
	slices.SortFunc(r.OutdatedPods, func(a, b explain.RunningPod) int { return cmp.Compare(a.Name, b.Name) })
	if r.Replace && o.Restarts && (explained.Called.Now || !explained.Called.IsKnown) {
		r.Remedy = fmt.Sprintf("kubectl -n %s rollout restart %s/%s", ns.Name, strings.ToLower(o.Kind), o.Name)
	}
	return nil
}

// unreadPods adds a gap for the pods of a workload, and returns the sentence that stands in their place.
func (l *Live) unreadPods(err error) *explain.Note {
	l.addGap("which pods of a workload are up to date", err)
	return &explain.Note{Text: "not known"}
}

// formatInjected formats the numbers of a workload's pods by the templates in their records.
func formatInjected(pods map[string]int) string {
	var parts []string
	total := 0
	for _, names := range slices.Sorted(maps.Keys(pods)) {
		total += pods[names]
		parts = append(parts, fmt.Sprintf("%d with %s", pods[names], cmp.Or(names, "no sidecar of Pillion's")))
	}
	return strings.TrimSuffix(fmt.Sprintf("%d pods: %s", total, strings.Join(parts, ", ")), ": ")
}

// addRunningPod adds a pod of a workload.
func (s *Session) addRunningPod(ctx context.Context, r *explain.Running, ns Namespace, pod map[string]any, by creator) error {
	now, _, err := s.compared(ctx, ns, pod)
	if err != nil || now == nil {
		return err
	}
	r.Pods++
	says := explain.FormatDifference(now)
	if refused := drift.Named(now.Templates, drift.Refused); len(refused) > 0 {
		says = "a new one would be refused"
	}
	if dropped := drift.Named(now.Templates, drift.Dropped); says == "" && len(dropped) > 0 {
		says = "has " + strings.Join(dropped, ", ") + ", and a new one does not get it"
	}
	if by.superseded {
		says = strings.TrimPrefix(says+"; of an older pod template, by ReplicaSet "+by.name, "; ")
	}
	if says == "" {
		r.Current++
		return nil
	}
	r.Replace = r.Replace || now.Behind() && !by.superseded
	name, _, _ := unstructured.NestedString(pod, "metadata", "name")
	r.OutdatedPods = append(r.OutdatedPods, explain.RunningPod{Name: name, Text: says})
	return nil
}

// podsOf lists the pods of a workload's selector. It lists all pods if the workload has no label selector.
func (l *Live) podsOf(workload *unstructured.Unstructured) coverage.List {
	var of struct {
		Spec struct {
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(workload.Object, &of)
	if selector, wrong := metav1.LabelSelectorAsSelector(of.Spec.Selector); errors.Join(err, wrong) == nil && of.Spec.Selector != nil {
		return l.podsWith(selector.String())
	}
	return l.Pods
}

// failedCreate is the reason of a controller's event about an object that it could not create.
const failedCreate = "FailedCreate"

// failure returns the newest event about a pod that a creator could not create, or nil. API servers
// delete events after an hour.
func (l *Live) failure(ctx context.Context, namespace string, creators map[types.UID]creator) (*explain.Failure, error) {
	events, err := List[corev1.Event](ctx, l.Cluster, corev1.SchemeGroupVersion.WithResource("events"), namespace, metav1.ListOptions{FieldSelector: "reason=" + failedCreate})
	if err != nil {
		return nil, err
	}
	var newest *explain.Failure
	for _, e := range events {
		by, mine := creators[e.InvolvedObject.UID]
		if at := lastSeen(e); mine && !by.superseded && e.Reason == failedCreate && (newest == nil || at.After(newest.At)) {
			newest = &explain.Failure{At: at, About: strings.ToLower(by.kind) + "/" + by.name, Count: max(1, int(e.Count)), Message: strings.TrimPrefix(e.Message, "(combined from similar events): ")}
		}
	}
	return newest, nil
}

// lastSeen returns the time of an event's last occurrence.
func lastSeen(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return slices.MaxFunc([]time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}, time.Time.Compare)
}
