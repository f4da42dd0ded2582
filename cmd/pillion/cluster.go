package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/injector/survey"
	"github.com/pillion-dev/pillion/offline/chain"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// cluster is a cluster that a command reads with the user's own rights, and what decides about
// pods there.
type cluster struct {
	list    survey.List
	objects dynamic.Interface
	// trial creates pods by dry run; its warnings go to heard.
	trial dynamic.Interface
	heard *heardWarnings
	// namespace is the one of -n, of the kubeconfig's context, or default.
	namespace string
	settings  serverSettings
	compare   standing.Comparer
	// complete: the server's settings were read. Otherwise they are what a team may know.
	complete bool
	// notes say what could not be read, and what would let the user.
	notes []explain.Note

	// chain: the webhooks and policies that a pod meets are asked for. Links are the cluster's,
	// nil until they are read.
	chain bool
	links *chain.Objects
}

// note keeps a note without commands.
func (c *cluster) note(says string) { c.notes = append(c.notes, explain.Note{Says: says}) }

// cluster connects, and reads the settings of the server there. Namespace is the workload's, ""
// for the context's.
func (i *installation) cluster(cmd *cobra.Command, prefix, namespace string) (*cluster, error) {
	loader := kubeconfigOf(i.kubeconfig, i.context)
	config, err := connectionOf(loader)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	client, err := clientset.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	heard := &heardWarnings{}
	trying := rest.CopyConfig(config)
	trying.WarningHandler = heard
	trial, err := dynamic.NewForConfig(trying)
	if err != nil {
		return nil, fmt.Errorf("making a client for dry runs: %w", err)
	}
	kubernetes, err := readKubeVersion(cmd.Context(), client.ServerVersion)
	if err := answering(config.Host, err); err != nil {
		return nil, err
	}
	if err != nil {
		kubernetes = templates.NewestKubernetes()
	}
	found := &cluster{list: client.PodList, objects: objects, trial: trial, heard: heard, namespace: namespace}
	if err := found.read(cmd.Context(), i, prefix, kubernetes); err != nil {
		return nil, err
	}
	return found, nil
}

// answering returns an error if the API server gave no answer, or does not accept the user's
// credentials: then nothing else can be read.
func answering(host string, err error) error {
	var transport *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s does not accept your credentials, which may have ended (kubectl config view --minify): %w", host, err)
	case errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server %s does not answer (kubectl cluster-info; --context and --kubeconfig choose another): %w", host, err)
	}
	return nil
}

// read reads the settings of the server, or what a team may know of them.
func (c *cluster) read(ctx context.Context, where *installation, prefix string, kubernetes templates.KubernetesVersion) error {
	settings, err := readServerSettings(ctx, c.objects, where.place())
	c.complete = err == nil
	switch {
	case apierrors.IsForbidden(err):
		c.notes = append(c.notes, explain.Note{
			Says: "Pillion's settings cannot be read with your rights: templates are those that the API shows, without the installer's values. What the server does with the pod is the dry run's answer. Who may grant more:",
			Remedy: []string{
				fmt.Sprintf("kubectl -n %s create role pillion-settings --verb=get,list --resource=deployments.apps,configmaps", where.namespace),
				fmt.Sprintf("kubectl -n %s create rolebinding pillion-settings --role=pillion-settings %s", where.namespace, deniedTo(err)),
			},
		})
		if settings, err = c.teamSettings(ctx, where, prefix); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	c.settings = settings
	c.compare = standing.Comparer{
		Pipeline: injector.NewPipeline(injector.Config{
			Prefix: settings.prefix, Namespace: where.namespace, ExcludedNamespaces: settings.excluded, Kubernetes: func() templates.KubernetesVersion { return kubernetes },
		}),
		Registration: standing.Registration{Prefix: settings.prefix, All: settings.all, Excluded: settings.excluded},
	}
	return nil
}

// teamSettings are the settings as far as a team may know them: the templates that the API
// shows, and the defaults of the rest. Its templates are nil if not even they can be read.
func (c *cluster) teamSettings(ctx context.Context, where *installation, prefix string) (serverSettings, error) {
	s := serverSettings{
		prefix: prefix, excluded: append(slices.Clone(defaultExcluded), where.namespace), approximate: map[string]string{},
		compile: templates.Options{Prefix: prefix, ForeignSidecars: templates.DefaultForeignSidecars()},
	}
	all, unread, err := calledForAll(ctx, c.objects, prefix, []string{"pillion"})
	if err != nil {
		return s, err
	}
	s.all, s.scope = all, unread
	resource := schema.GroupVersionResource{Group: prefix, Version: v1alpha1.Version, Resource: "sidecartemplates"}
	found, err := c.objects.Resource(resource).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		c.notes = append(c.notes, lacking("the templates in force cannot be read: ", err))
		return s, nil
	case apierrors.IsNotFound(err):
		c.note(fmt.Sprintf("the API has no SidecarTemplates of the group %s: Pillion is not installed with its CRD, or with another --annotation-prefix", prefix))
		return s, nil
	case err != nil:
		return s, fmt.Errorf("reading the SidecarTemplates: %w", err)
	}
	var entries []templates.Entry
	var differ []string
	mirrored, hashed := false, true
	for _, item := range found.Items {
		mirrored = mirrored || templates.IsMirror(prefix, item.GetLabels())
		entry, hash, err := s.compiled(item)
		if err != nil {
			return s, err
		}
		entries = append(entries, entry)
		hashed = hashed && hash != ""
		if hash != "" && (entry.Template == nil || entry.Template.Hash() != hash) {
			s.approximate[entry.Name] = hash
			differ = append(differ, entry.Name)
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		c.note(fmt.Sprintf("the installer's values, which change %s, cannot be read: parameters and places that are shown of it may differ from the server's", strings.Join(differ, ", ")))
	}
	if !mirrored {
		c.note("templates of the library and of the chart's values may be in force beside those that the API shows here")
	}
	s.set, s.whole = templates.NewSet(entries), mirrored && hashed && len(differ) == 0
	return s, nil
}

// compiled compiles a SidecarTemplate of the cluster. Hash is the one that its status says is
// in force, "" for none.
func (s serverSettings) compiled(item unstructured.Unstructured) (entry templates.Entry, hash string, err error) {
	name := item.GetName()
	data, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "metadata": map[string]any{"name": name}, "spec": item.Object["spec"],
	})
	if err != nil {
		return entry, "", fmt.Errorf("reading SidecarTemplate %s: %w", name, err)
	}
	options := s.compile
	options.Source = templates.ClusterSource + name
	entry = templates.Entry{Name: name, Source: options.Source}
	for _, d := range templates.ParseFile(data) {
		if entry.Template, _, err = templates.Compile(d.Manifest, options); err != nil {
			entry.Template, entry.Err = nil, err
		}
	}
	hash, _, _ = unstructured.NestedString(item.Object, "status", "hash")
	return entry, hash, nil
}

// heardWarnings are the warnings of API servers.
type heardWarnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (h *heardWarnings) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

// take returns the warnings that were heard since the last call.
func (h *heardWarnings) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts := h.texts
	h.texts = nil
	return texts
}

// liveNamespace is a namespace of the cluster, with what limits its pods.
type liveNamespace struct {
	predict.Namespace
	// object has its metadata.
	object map[string]any
	// unread says why its metadata are not known.
	unread error
	notes  []explain.Note
}

var (
	namespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
)

// namespaceOf reads a namespace, as far as the user may. A namespace that does not exist is an
// error.
func (c *cluster) namespaceOf(ctx context.Context, name string) (liveNamespace, error) {
	ns := liveNamespace{Namespace: predict.Namespace{Namespace: templates.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}}
	object, err := c.objects.Resource(namespacesResource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		ns.unread = granting(err)
		ns.notes = append(ns.notes, lacking(fmt.Sprintf("the label and the annotations of namespace %s cannot be read: ", name), err))
	case err != nil:
		return ns, fmt.Errorf("reading namespace %s: %w", name, err)
	default:
		ns.object, ns.Namespace.Namespace = object.Object, injector.NamespaceOf(object.Object)
	}
	for kind, keep := range map[string]func([]byte) error{
		"limitranges": func(data []byte) error {
			var all corev1.LimitRangeList
			err := json.Unmarshal(data, &all)
			ns.LimitRanges = all.Items
			return err
		},
		"resourcequotas": func(data []byte) error {
			var all corev1.ResourceQuotaList
			err := json.Unmarshal(data, &all)
			ns.Quotas = all.Items
			return err
		},
	} {
		found, err := c.objects.Resource(corev1.SchemeGroupVersion.WithResource(kind)).Namespace(name).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			ns.notes = append(ns.notes, lacking(fmt.Sprintf("the %s of namespace %s cannot be read, so what they would refuse is not foretold: ", kind, name), err))
			continue
		}
		if err != nil {
			return ns, fmt.Errorf("reading the %s of namespace %s: %w", kind, name, err)
		}
		data, err := found.MarshalJSON()
		if err == nil {
			err = keep(data)
		}
		if err != nil {
			return ns, fmt.Errorf("reading the %s of namespace %s: %w", kind, name, err)
		}
	}
	slices.SortFunc(ns.notes, func(a, b explain.Note) int { return strings.Compare(a.Says, b.Says) })
	return ns, nil
}

// exactPod returns a pod as the pipeline wants it, with its numbers as json.Number.
func exactPod(u *unstructured.Unstructured) (map[string]any, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", u.GetName(), err)
	}
	return injector.DecodePod(data)
}

// create creates the pod by dry run, under another name.
func (c *cluster) create(ctx context.Context, namespace string, pod map[string]any) (created map[string]any, warnings []string, err error) {
	pod = maps.Clone(pod)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the pod: %w", err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, nil, fmt.Errorf("writing the pod: %w", err)
	}
	if u.GetGenerateName() == "" {
		u.SetGenerateName(strings.TrimSuffix(u.GetName(), "-") + "-")
	}
	u.SetName("")
	u.SetNamespace(namespace) // a sample's is another
	u.SetResourceVersion("")
	u.SetUID("")
	c.heard.take()
	made, err := c.trial.Resource(podsResource).Namespace(namespace).Create(ctx, &u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	warnings = c.heard.take()
	if err != nil {
		return nil, warnings, err
	}
	created, err = exactPod(made)
	return created, warnings, err
}
