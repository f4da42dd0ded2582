package check

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
	"github.com/pillion-dev/pillion/webhook/state"
)

// installation has the reads that several checks share. Each function reads once.
type installation struct {
	cluster *inspect.Cluster
	version string
	now     time.Time
	// release has the settings. absent is the error of reading them.
	release inspect.Release
	absent  error

	replicas   func() ([]state.Replica, error)
	rendered   func() ([]unstructured.Unstructured, error)
	namespaces func() ([]labels.Namespace, error)
	// templates returns the set in force, with the templates of namespaces. This program compiles it.
	templates func() (*templates.Set, error)
}

func newInstallation(ctx context.Context, cluster *inspect.Cluster, version string, now time.Time) *installation {
	in := &installation{cluster: cluster, version: version, now: now}
	in.replicas = sync.OnceValues(func() ([]state.Replica, error) { return cluster.Replicas(ctx) })
	in.rendered = sync.OnceValues(func() ([]unstructured.Unstructured, error) { return in.readRendered(ctx) })
	in.namespaces = sync.OnceValues(func() (all []labels.Namespace, err error) {
		keys := []string{v1alpha1.InjectionLabel, v1alpha1.RequiredLabel}
		err = cluster.EachName(ctx, inspect.NamespacesResource, func(ns *metav1.PartialObjectMetadata) {
			if ns.DeletionTimestamp == nil {
				all = append(all, labels.Owned(ns, keys))
			}
		})
		return all, err
	})
	in.templates = sync.OnceValues(func() (*templates.Set, error) {
		s, err := cluster.SettingsOf(ctx, in.release)
		if err != nil || !in.release.Templates.Namespaced {
			return s.Templates, err
		}
		own, err := cluster.AllNamespacedTemplates(ctx, s.Compile)
		return s.Templates.WithNamespaces(func(namespace string) []templates.Entry { return own[namespace] }), err
	})
	return in
}

// readRendered reads the chart's rendered objects from the release's ConfigMap.
func (in *installation) readRendered(ctx context.Context) ([]unstructured.Unstructured, error) {
	name := in.release.Server.Service + "-rendered"
	config, err := inspect.Get[corev1.ConfigMap](ctx, in.cluster, corev1.SchemeGroupVersion.WithResource("configmaps"), in.release.Server.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, failure{failed(fmt.Sprintf("the ConfigMap %s is missing in namespace %s. It has the objects as the chart renders them, so edits cannot be found", name, in.release.Server.Namespace), in.restore())}
	}
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for document := range strings.SplitSeq(config.Data["objects.yaml"], "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("reading the ConfigMap %s in namespace %s: %w", name, in.release.Server.Namespace, err)
		}
		if len(object) > 0 {
			all = append(all, unstructured.Unstructured{Object: object})
		}
	}
	return all, nil
}

// helmRelease returns the name of the Helm release, or "" if Helm did not install Pillion.
func (in *installation) helmRelease() string {
	name, _ := in.release.Helm()
	return name
}

// restore returns the command that creates deleted objects of the release again: a rollback to the
// installed revision.
func (in *installation) restore() string {
	name, serverSide := in.release.Helm()
	if name == "" {
		return "kubectl apply -f MANIFESTS"
	}
	command := fmt.Sprintf("helm -n %[1]s rollback %[2]s $(helm -n %[1]s history %[2]s --max 1 | awk 'END {print $1}')", in.release.Server.Namespace, name)
	if serverSide {
		command += " --force-conflicts"
	}
	return command
}

// replace returns the command that reverts edits of the chart's objects. A rollback does not revert
// all: Helm ignores fields and items of lists that are in none of its manifests. The command keeps
// the caBundles, which the chart does not render, so that pods can be created meanwhile.
func (in *installation) replace() string {
	return fmt.Sprintf(`kubectl -n %s get configmap %s-rendered -o jsonpath='{.data.objects\.yaml}' | kubectl create -f - -l app.kubernetes.io/component=registration --dry-run=client -o json | sed 's|"clientConfig": {|&"caBundle":"'`+
		`$(kubectl get mutatingwebhookconfigurations -o jsonpath='{.items[*].webhooks[?(@.name=="enforced.%s")].clientConfig.caBundle}')'",|' | kubectl replace -f -`, in.release.Server.Namespace, in.release.Server.Service, v1alpha1.Group)
}

// logs returns the command that prints the replicas' logs.
func (in *installation) logs() string {
	return fmt.Sprintf("kubectl -n %s logs -l %s --tail=100 --prefix", in.release.Server.Namespace, in.selector())
}

// restart returns the command that restarts the replicas.
func (in *installation) restart() string {
	return fmt.Sprintf("kubectl -n %s rollout restart deployment/%s", in.release.Server.Namespace, in.release.Server.Service)
}

// selector selects the pods of the release.
func (in *installation) selector() string {
	if name := in.helmRelease(); name != "" {
		return "app.kubernetes.io/instance=" + name
	}
	return "app.kubernetes.io/name=pillion"
}

// pillion returns a command of pillion that reads this installation.
func (in *installation) pillion(command string) string {
	if in.release.Server.Namespace != injector.DefaultNamespace {
		command += " --pillion-namespace " + in.release.Server.Namespace
	}
	return command
}
