package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/clientset/rights"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/webhook"
	"github.com/pillion-dev/pillion/templates/show"
)

// ownContainer is the name of Pillion's container in the chart. It does not depend on the
// names of the release and the chart.
const ownContainer = "pillion"

// statusTimeout bounds the requests to one replica.
const statusTimeout = 5 * time.Second

func newStatusCommand() *cobra.Command {
	var c statusCommand
	cmd := &cobra.Command{
		Use:   "status [TEMPLATE|NAMESPACE]",
		Short: "Show the state of Pillion in a cluster: what is missing, which pods lack a sidecar, and when certificates expire",
		Long: `Status asks every replica, through the API server, reads the webhook configurations,
and compares the running pods with what they would get if they were created now. You
need the permissions to list pods in Pillion's namespace, to get pods/proxy there, and
to list webhook configurations; for the pods, to read Pillion's Deployment and
ConfigMaps and the SidecarTemplates, and to list namespaces, pods and events. A missing
one is named, with the command that grants it. The exit code is 1 if something is
missing in the installation, or cannot be read; pods that lack a sidecar do not count
for it.

With the name of a namespace, or -n, status shows its pods by workload; with the name
of a template, what concerns the template. ns/NAME and sct/NAME say which is meant.

A pod is missing a template that it would get now. It is outdated if it has a template
in another version than the one in force, or would get it with other parameters now.
Pods that have ended, pods that opt out, and pods of namespaces in which Pillion is not
called are neither. What was refused lately is from Pillion's events, which API servers
keep for an hour.

The replicas are the running pods of the namespace with a container called pillion.
Pods that are being deleted are left out; pods that do not run are named. If two
releases share a namespace, --pillion-selector tells their pods apart. The output lists the webhook
configurations that the replicas name, and all others that call the same Service.`,
		Example: `  pillion status
  pillion status shop
  pillion status sct/fluent-bit -o json
  pillion status fluent-bit -n shop
  pillion status --pillion-namespace sidecars
  pillion status --replica http://127.0.0.1:8080   # after kubectl port-forward`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one template or namespace, got %q", cmd.CommandPath(), args)}
			}
			if len(args) == 0 {
				return nil
			}
			_, _, err := parseTarget(args[0])
			return err
		},
		RunE: c.run,
	}
	c.where.flags(cmd.Flags())
	c.where.replicaFlag(cmd.Flags())
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "only the pods of this namespace")
	cmd.Flags().StringVarP(&c.output, "output", "o", "text", "text or json")
	return cmd
}

// installation says where to find Pillion in a cluster.
type installation struct {
	kubeconfig, context string
	// namespace is Pillion's own, selector tells two releases there apart.
	namespace, selector string

	// urls are the admin ports of replicas, to ask instead of the pods.
	urls []string
}

func (i *installation) flags(f *pflag.FlagSet) {
	f.StringVar(&i.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	f.StringVar(&i.context, "context", "", contextUsage)
	f.StringVar(&i.namespace, "pillion-namespace", injector.DefaultNamespace, "Pillion's own namespace")
	f.StringVar(&i.selector, "pillion-selector", "", "label selector of Pillion's Deployment and pods, where its namespace has two releases")
}

// replicaFlag adds the flag of commands that ask replicas.
func (i *installation) replicaFlag(f *pflag.FlagSet) {
	f.StringSliceVar(&i.urls, "replica", nil, "URL of a replica's admin port, to ask instead of the pods (repeatable)")
}

// args are the flags that lead another command to the same installation, each with a space
// before it.
func (i *installation) args() string {
	args := ""
	if i.namespace != injector.DefaultNamespace {
		args += " --pillion-namespace " + rights.Word(i.namespace)
	}
	if i.selector != "" {
		args += " --pillion-selector " + rights.Word(i.selector)
	}
	return args + aim{i.kubeconfig, i.context}.flags("--context")
}

// open returns a client with the user's own rights, and the replicas. It prints a line for
// each pod of Pillion that does not run. If only the pods cannot be listed, the client is
// there beside the error.
func (i *installation) open(ctx context.Context, w io.Writer) (clientset.Interface, []replica, error) {
	config, err := clusterConfig(i.kubeconfig, i.context)
	if err != nil {
		return nil, nil, err
	}
	client, err := clientset.New(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	_, err = readKubeVersion(ctx, client.ServerVersion)
	if err := answering(config.Host, err); err != nil {
		return nil, nil, err
	}
	if len(i.urls) == 0 {
		replicas, err := podsOf(ctx, w, client, i.namespace, i.selector)
		return client, replicas, err
	}
	var replicas []replica
	for _, url := range i.urls {
		replicas = append(replicas, replica{name: url, get: getURL(strings.TrimSuffix(url, "/"))})
	}
	return client, replicas, nil
}

// replica is one running Pillion.
type replica struct {
	name string
	// created is when its pod was made; zero if it is not known.
	created time.Time
	// get fetches a path of the admin port. It may return a body together with an error.
	get func(ctx context.Context, path string) ([]byte, error)
}

// podsOf returns the replicas among the pods of the namespace. It prints a line for each
// pod of Pillion that does not run.
func podsOf(ctx context.Context, w io.Writer, client clientset.Interface, namespace, selector string) ([]replica, error) {
	pods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("looking for Pillion's pods in namespace %s: %w", namespace, err)
	}
	var replicas []replica
	for _, pod := range pods.Items {
		own := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == ownContainer })
		switch {
		case pod.DeletionTimestamp != nil || own < 0:
			continue
		case pod.Status.Phase != corev1.PodRunning:
			fmt.Fprintf(w, "not running: %s: %s\n", pod.Name, show.Plain(strings.TrimSuffix(string(pod.Status.Phase)+": "+why(pod.Status), ": ")))
			continue
		}
		port := adminPort(pod.Spec.Containers[own])
		replicas = append(replicas, replica{name: pod.Name, created: pod.CreationTimestamp.Time, get: func(ctx context.Context, path string) ([]byte, error) {
			return client.PodProxy(ctx, namespace, pod.Name, port, path)
		}})
	}
	return replicas, nil
}

// adminPort returns the port on which Pillion's container has probes and metrics. Where neither
// its arguments nor its environment say another one, a file may: the container's port admin tells.
func adminPort(c corev1.Container) int {
	if len(c.Args) > 0 {
		if v, err := servedFlags(c); err == nil {
			_, text, _ := net.SplitHostPort(v.GetString("admin-listen"))
			if port, err := strconv.Atoi(text); err == nil && port != defaultAdminPort {
				return port
			}
		}
	}
	for _, p := range c.Ports {
		if p.Name == "admin" {
			return int(p.ContainerPort)
		}
	}
	return defaultAdminPort
}

// why returns the reason in a pod's status why the pod does not run; empty if there is
// none.
func why(s corev1.PodStatus) string {
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return strings.TrimSuffix(s.Reason+": "+s.Message, ": ")
}

// getURL returns a replica's get for the URL of its admin port.
func getURL(base string) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return body, err
	}
}

// answers are the answers of one replica.
type answers struct {
	name    string
	created time.Time

	// missing says why the replica is not ready; empty if it is ready.
	missing string

	// metrics are nil if the replica did not answer.
	metrics map[string]*dto.MetricFamily
}

// ask fetches the readiness and the metrics of the replica.
func (r replica) ask(ctx context.Context) answers {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a := answers{name: r.name, created: r.created}
	if body, err := r.get(ctx, "/readyz"); err != nil {
		a.missing = notReady(body, err)
	}
	body, err := r.get(ctx, "/metrics")
	if err != nil {
		return a
	}
	if a.metrics, err = parseMetrics(body); err != nil {
		a.missing = strings.TrimPrefix(a.missing+"; reading the metrics: "+err.Error(), "; ")
	}
	plainLabels(a.metrics)
	return a
}

// parseMetrics reads metrics in Prometheus' text format. Its parser panics on some texts,
// such as {}.
func parseMetrics(text []byte) (metrics map[string]*dto.MetricFamily, err error) {
	defer func() {
		if recover() != nil {
			metrics, err = nil, errors.New("they are not in the text format")
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// plainLabels takes what would change a terminal out of the labels, which status prints:
// another program may have answered.
func plainLabels(metrics map[string]*dto.MetricFamily) {
	for _, family := range metrics {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				l.Value = new(show.Plain(l.GetValue()))
			}
		}
	}
}

// labelsOf returns the labels of a metric by name.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// numberOf returns the value of a gauge or a counter, whether or not its type is known.
func numberOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
}

// notReady returns the reason why a request for /readyz failed: the replica's answer or, if
// the API server could not reach the replica, the API server's answer.
func notReady(body []byte, err error) string {
	if missing, ok := webhook.MissingOf(body); ok {
		return missing
	}
	var said metav1.Status
	if json.Unmarshal(body, &said) == nil && said.Message != "" {
		return said.Message
	}
	return err.Error()
}

// value returns the sum of a metric over the series with the labels (NAME=VALUE).
func (a answers) value(name string, labels ...string) (sum float64, found bool) {
	for _, m := range a.metrics[name].GetMetric() {
		has := 0
		for _, l := range m.GetLabel() {
			if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
				has++
			}
		}
		if has == len(labels) {
			sum, found = sum+numberOf(m), true
		}
	}
	return sum, found
}

// unauthorized reports whether the API server does not accept the replica's token.
func (a answers) unauthorized() bool {
	n, _ := a.value("pillion_unauthorized")
	return n > 0
}

// askAll asks every replica. The answers are sorted by name.
func askAll(ctx context.Context, replicas []replica) []answers {
	var all []answers
	for _, r := range replicas {
		all = append(all, r.ask(ctx))
	}
	slices.SortFunc(all, func(a, b answers) int { return strings.Compare(a.name, b.name) })
	return all
}

// problemsOf are lines about what is missing or fails.
func problemsOf(namespace string, all []answers) []string {
	var lines []string
	if len(all) == 0 {
		lines = append(lines, noReplicas(namespace))
	}
	for _, a := range all {
		for line := range strings.Lines(a.missing) {
			lines = append(lines, fmt.Sprintf("not ready: %s: %s", a.name, show.Plain(strings.TrimSpace(line))))
		}
	}
	for _, a := range all {
		if a.unauthorized() {
			lines = append(lines, fmt.Sprintf("failing: %s: the API server does not accept its token: it injects pods, and writes nothing; pillion check says why", a.name))
		}
		for _, p := range slices.Concat(a.problems(), a.labelProblems(), a.inUseProblems()) {
			lines = append(lines, fmt.Sprintf("failing: %s: %s; its log says why", a.name, p))
		}
	}
	return lines
}

func noReplicas(namespace string) string {
	return fmt.Sprintf("no replicas: no running pod in namespace %s has a container called %s (and the labels of --pillion-selector, if given); --pillion-namespace names Pillion's namespace", namespace, ownContainer)
}

// warningsOf are lines about what does no harm now.
func warningsOf(all []answers) []string {
	var lines []string
	for _, a := range all {
		for _, line := range a.namedMissing() {
			lines = append(lines, fmt.Sprintf("warning: %s: %s", a.name, line))
		}
	}
	return lines
}

// status prints what the replicas answered, and the configurations. It returns errRefused if
// something is missing or fails.
func status(ctx context.Context, w io.Writer, client clientset.Interface, namespace string, all []answers) error {
	problems := problemsOf(namespace, all)
	for _, line := range slices.Concat(problems, warningsOf(all)) {
		fmt.Fprintln(w, line)
	}
	if len(all) == 0 {
		return errRefused
	}
	complete, err := certificateStatus(ctx, w, client, namespace, all, time.Now())
	if err != nil {
		return err
	}
	if err := writeReplicas(w, all); err != nil {
		return err
	}
	if len(problems) > 0 || !complete {
		return errRefused
	}
	return nil
}
