package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/pillion-dev/pillion/inspect"
)

// OldestKubernetes is the oldest version on which Pillion is tested and its chart installs.
var OldestKubernetes = version.MajorMinor(1, 35)

func apiServer(ctx context.Context, in *installation) ([]Finding, error) {
	is, err := in.cluster.KubernetesVersion(ctx)
	switch {
	case apierrors.IsUnauthorized(err):
		return []Finding{failed("the API server does not accept your credentials, which may have ended: "+oneLine(err.Error()), "kubectl config view --minify")}, nil
	case apierrors.IsForbidden(err):
		return nil, err
	case err != nil:
		return []Finding{failed("the API server does not answer: "+oneLine(err.Error()), "kubectl cluster-info")}, nil
	}
	if is.LessThan(OldestKubernetes) {
		return []Finding{failed(fmt.Sprintf("the API server is of version %s; Pillion supports %s and later", is, OldestKubernetes), "kubectl version")}, nil
	}
	return nil, nil
}

func deployment(ctx context.Context, in *installation) ([]Finding, error) {
	if errors.Is(in.absent, inspect.ErrAbsent) {
		return []Finding{failed(in.absent.Error(), "kubectl get deployments -A -l app.kubernetes.io/name=pillion")}, nil
	}
	if in.absent != nil {
		return nil, in.absent
	}
	if len(in.cluster.URLs) > 0 {
		return skipped("not checked: --replica names other replicas to ask"), nil
	}
	d, err := inspect.Get[appsv1.Deployment](ctx, in.cluster, appsv1.SchemeGroupVersion.WithResource("deployments"), in.release.Server.Namespace, in.release.Server.Service)
	if apierrors.IsNotFound(err) {
		return []Finding{failed(fmt.Sprintf("there is no Deployment %s in namespace %s", in.release.Server.Service, in.release.Server.Namespace), in.restore())}, nil
	}
	if err != nil {
		return nil, err
	}
	wanted, available := int32(1), d.Status.AvailableReplicas
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	scale := fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", in.release.Server.Namespace, d.Name)
	describe := fmt.Sprintf("kubectl -n %s describe pods -l %s", in.release.Server.Namespace, in.selector())
	switch {
	case wanted == 0:
		return []Finding{failed(fmt.Sprintf("Deployment %s wants no replica", d.Name), scale)}, nil
	case available == 0:
		return []Finding{failed(fmt.Sprintf("none of the %d replicas of Deployment %s is available", wanted, d.Name), describe)}, nil
	case available < wanted:
		return []Finding{warning(fmt.Sprintf("%d of %d replicas of Deployment %s are available", available, wanted, d.Name), describe)}, nil
	case d.Status.UpdatedReplicas < wanted:
		return []Finding{warning(fmt.Sprintf("%d of %d replicas of Deployment %s are of its newest version", d.Status.UpdatedReplicas, wanted, d.Name), fmt.Sprintf("kubectl -n %s rollout status deployment %s", in.release.Server.Namespace, d.Name))}, nil
	case wanted == 1:
		return []Finding{warning(fmt.Sprintf("Deployment %s has one replica: while it is replaced, pods of enforced namespaces wait", d.Name), scale)}, nil
	}
	return nil, nil
}

// oldCache is an age that no healthy cache reaches, because a bookmark comes every minute.
const oldCache = 2 * time.Minute

func replicas(_ context.Context, in *installation) ([]Finding, error) {
	all, err := in.replicas()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []Finding{failed(fmt.Sprintf("no pod of Pillion runs in namespace %s", in.release.Server.Namespace), fmt.Sprintf("kubectl -n %s describe pods -l %s", in.release.Server.Namespace, in.selector()))}, nil
	}
	var found []Finding
	versions := map[string]bool{}
	for _, r := range all {
		switch {
		case r.Missing != "":
			found = append(found, failed(fmt.Sprintf("replica %s is not ready: %s", r.Name, oneLine(r.Missing)), in.logs()))
		case !r.Answers:
			found = append(found, failed(fmt.Sprintf("replica %s does not answer on its admin port", r.Name), in.logs()))
		}
		for _, problem := range r.Problems() {
			found = append(found, failed(fmt.Sprintf("replica %s fails at %s; its log says why", r.Name, problem), in.logs()))
		}
		for _, cache := range slices.Sorted(maps.Keys(r.CacheAgeSeconds)) {
			if age := time.Duration(r.CacheAgeSeconds[cache] * float64(time.Second)); age > oldCache {
				found = append(found, warning(fmt.Sprintf("replica %s last had a current cache of %s %s ago: it does not reach the API server, or its watch gets no events", r.Name, cache, age.Round(time.Second)), in.logs()))
			}
		}
		if r.Version != "" {
			versions[r.Version] = true
		}
	}
	if delete(versions, in.version); len(versions) > 0 {
		found = append(found, warning(fmt.Sprintf("there are replicas of version %s, and this pillion is %s: it compiles templates as its own version does. Use the pillion of the replicas' version", strings.Join(slices.Sorted(maps.Keys(versions)), ", "), in.version),
			fmt.Sprintf("kubectl -n %s get deployments -l %s -o wide", in.release.Server.Namespace, in.selector())))
	}
	return found, nil
}
