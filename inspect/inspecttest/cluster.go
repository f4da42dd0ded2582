// Package inspecttest has fake clusters for tests of inspect.
package inspecttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	build "k8s.io/component-base/version"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/inspect"
)

// Options configure a fake cluster and the rights of its user.
type Options struct {
	Place inspect.Place
	// Pods are the items of a list of pods.
	Pods []map[string]any
	// Forbidden has the rights that the user mia lacks: VERB RESOURCE NAMESPACE.
	Forbidden []string
}

// kinds are the kinds that can be listed, by group and version.
var kinds = map[string][]string{
	"v1":      {"Pod", "Namespace", "ConfigMap", "Event", "Service", "ServiceAccount", "ReplicationController"},
	"apps/v1": {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, "batch/v1": {"Job", "CronJob"},
	"pillion.dev/v1alpha1":            {"SidecarTemplate", "NamespacedSidecarTemplate"},
	"admissionregistration.k8s.io/v1": {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"},
	"rbac.authorization.k8s.io/v1":    {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
}

// ErrNoReplica is the answer of pods that are asked where the test has no other one.
var ErrNoReplica = errors.New("no such pod")

// Cluster returns the cluster of manifests, which are documents of YAML.
func Cluster(t testing.TB, manifests string, o Options) *inspect.Cluster {
	t.Helper()
	objects, names := Objects(t, manifests, o)
	return &inspect.Cluster{
		Place: o.Place, Objects: objects, Names: names, Trial: objects, Pods: o.list,
		Version: func(context.Context) ([]byte, error) { return version(), nil },
		Proxy:   func(context.Context, string, int, string) ([]byte, error) { return nil, ErrNoReplica },
	}
}

// Objects returns the clients of such a cluster.
func Objects(t testing.TB, manifests string, o Options) (*dynamicfake.FakeDynamicClient, *metadatafake.FakeMetadataClient) {
	t.Helper()
	var objects, metadata []runtime.Object
	for _, text := range strings.Split(manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
	for _, p := range o.Pods {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(data, &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		objects = append(objects, u)
	}
	for _, object := range objects {
		m := &metav1.PartialObjectMetadata{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, m); err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"Namespace", "Secret", "Pod"}, m.Kind) {
			metadata = append(metadata, m)
		}
	}
	lists := map[schema.GroupVersionResource]string{}
	for version, all := range kinds {
		for _, kind := range all {
			gv, err := schema.ParseGroupVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			resource := strings.ToLower(kind) + "s"
			if trunk, ok := strings.CutSuffix(resource, "ys"); ok {
				resource = trunk + "ies"
			}
			lists[gv.WithResource(resource)] = kind + "List"
		}
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, names := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), metadatafake.NewSimpleMetadataClient(scheme, metadata...)
	client.PrependReactor("*", "*", o.forbid)
	names.PrependReactor("*", "*", o.forbid)
	return client, names
}

func (o Options) forbid(a clienttesting.Action) (bool, runtime.Object, error) {
	r := a.GetResource()
	if slices.Contains(o.Forbidden, strings.TrimSpace(a.GetVerb()+" "+r.Resource+" "+a.GetNamespace())) {
		return true, nil, forbids(a.GetVerb(), r.Group, r.Resource, a.GetNamespace())
	}
	return false, nil, nil
}

// forbids is an API server's answer to the user mia, who lacks a right.
func forbids(verb, group, resource, namespace string) error {
	where := "at the cluster scope"
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	says := fmt.Sprintf("User \"mia\" cannot %s resource %q in API group %q %s", verb, resource, group, where)
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", errors.New(says))
}

// list answers a list request for pods.
func (o Options) list(_ context.Context, namespace string, options metav1.ListOptions) (io.ReadCloser, error) {
	if slices.Contains(o.Forbidden, strings.TrimSpace("list pods "+namespace)) {
		return nil, forbids("list", "", "pods", namespace)
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, p := range o.Pods {
		u := unstructured.Unstructured{Object: p}
		if (namespace == "" || u.GetNamespace() == namespace) && selector.Matches(labels.Set(u.GetLabels())) {
			items = append(items, p)
		}
	}
	data, err := json.Marshal(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": items})
	return io.NopCloser(bytes.NewReader(data)), err
}

// version is the API server's: the newest that this build knows.
func version() []byte {
	major, minor, _ := strings.Cut(build.DefaultKubeBinaryVersion, ".")
	return fmt.Appendf(nil, `{"major":%q,"minor":%q}`, major, minor)
}
