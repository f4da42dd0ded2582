package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ownContainer is what the chart calls Pillion's container, whatever the release and the
// chart are called.
const ownContainer = "pillion"

// statusTimeout bounds each question to a replica.
const statusTimeout = 5 * time.Second

func newStatusCommand() *cobra.Command {
	var kubeconfig, namespace, selector string
	var urls []string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "How Pillion stands in a cluster: what is missing, and when certificates expire",
		Long: `Status asks every replica, through the API server, and reads the webhook
configurations. It needs the rights to list pods in Pillion's namespace, to get
pods/proxy there, and to list webhook configurations. Exit code 1 if something is
missing; each such line says what, and on which object.

Replicas are the pods of the namespace that have a container called pillion and run;
those that are being deleted do not count, and those that do not run are named only.
Where two releases share a namespace, -l tells their pods apart. Webhook configurations
are those that the replicas are to be verified by, and others that call their Service.`,
		Example: `  pillion status
  pillion status -n sidecars -l app.kubernetes.io/instance=pillion
  pillion status --replica http://127.0.0.1:8080   # after kubectl port-forward`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clusterConfig(kubeconfig)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("making a client: %w", err)
			}
			var replicas []replica
			for _, url := range urls {
				replicas = append(replicas, replica{name: url, get: getURL(strings.TrimSuffix(url, "/"))})
			}
			if len(urls) == 0 {
				if replicas, err = podsOf(cmd.Context(), cmd.OutOrStdout(), client, namespace, selector); err != nil {
					return err
				}
			}
			return status(cmd.Context(), cmd.OutOrStdout(), client, namespace, replicas)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "pillion-system", "Pillion's own namespace")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "label selector of the pods (default: all with a container called "+ownContainer+")")
	cmd.Flags().StringSliceVar(&urls, "replica", nil, "URL of a replica's admin port, to be asked in place of the pods (repeatable)")
	return cmd
}

// replica is one running Pillion.
type replica struct {
	name string
	// get fetches a path of the admin port. The body counts whatever the error.
	get func(ctx context.Context, path string) ([]byte, error)
}

// podsOf are the replicas among the pods of the namespace. It prints a line for each pod
// of Pillion's that does not run.
func podsOf(ctx context.Context, w io.Writer, client kubernetes.Interface, namespace, selector string) ([]replica, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("looking for Pillion's pods in namespace %s: %w", namespace, err)
	}
	var replicas []replica
	for _, pod := range pods.Items {
		switch {
		case pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == ownContainer }):
			continue
		case pod.Status.Phase != corev1.PodRunning:
			fmt.Fprintf(w, "not running: %s: %s\n", pod.Name, strings.TrimSuffix(string(pod.Status.Phase)+": "+why(pod.Status), ": "))
			continue
		}
		replicas = append(replicas, replica{name: pod.Name, get: func(ctx context.Context, path string) ([]byte, error) {
			// Not Do: it drops the body of an answer that is not ready, which says why.
			return client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name(pod.Name + ":8080").
				SubResource("proxy").Suffix(path).DoRaw(ctx)
		}})
	}
	return replicas, nil
}

// why is what a pod's status says about why it does not run; empty if nothing.
func why(s corev1.PodStatus) string {
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return strings.TrimSuffix(s.Reason+": "+s.Message, ": ")
}

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

// answers are what a replica said.
type answers struct {
	name string

	// missing is what it is not ready for, empty if it is ready.
	missing string

	// metrics are nil if it did not answer.
	metrics map[string]*dto.MetricFamily
}

func (r replica) ask(ctx context.Context) answers {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a := answers{name: r.name}
	if body, err := r.get(ctx, "/readyz"); err != nil {
		a.missing = notReady(body, err)
	}
	body, err := r.get(ctx, "/metrics")
	if err != nil {
		return a
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if a.metrics, err = parser.TextToMetricFamilies(strings.NewReader(string(body))); err != nil {
		a.missing = strings.TrimPrefix(a.missing+"; reading its metrics: "+err.Error(), "; ")
	}
	return a
}

// notReady is why a question for /readyz has failed: what the replica answered or, if
// it was an API server that answered in its place, what that said.
func notReady(body []byte, err error) string {
	if said, ok := strings.CutPrefix(string(body), "not ready:\n"); ok {
		return strings.TrimSpace(said)
	}
	var said metav1.Status
	if json.Unmarshal(body, &said) == nil && said.Message != "" {
		return said.Message
	}
	return err.Error()
}

// value is the sum of a metric's values over those with the labels (NAME=VALUE).
func (a answers) value(name string, labels ...string) (sum float64, found bool) {
	for _, m := range a.metrics[name].GetMetric() {
		has := 0
		for _, l := range m.GetLabel() {
			if slices.Contains(labels, l.GetName()+"="+l.GetValue()) {
				has++
			}
		}
		if has == len(labels) {
			sum, found = sum+m.GetGauge().GetValue()+m.GetCounter().GetValue()+m.GetUntyped().GetValue(), true
		}
	}
	return sum, found
}

// status asks everybody and prints a section for each part.
func status(ctx context.Context, w io.Writer, client kubernetes.Interface, namespace string, replicas []replica) error {
	if len(replicas) == 0 {
		fmt.Fprintf(w, "no replicas: in namespace %s no pod runs that has a container called %s (and the labels of -l, where given); -n names Pillion's namespace\n", namespace, ownContainer)
		return errRefused
	}
	var all []answers
	for _, r := range replicas {
		all = append(all, r.ask(ctx))
	}
	slices.SortFunc(all, func(a, b answers) int { return strings.Compare(a.name, b.name) })
	missing := false
	for _, a := range all {
		if a.missing == "" {
			continue
		}
		missing = true
		for line := range strings.Lines(a.missing) {
			fmt.Fprintf(w, "not ready: %s: %s\n", a.name, strings.TrimSpace(line))
		}
	}
	for _, a := range all {
		for _, p := range a.problems() {
			missing = true
			fmt.Fprintf(w, "failing: %s: %s; its log says why\n", a.name, p)
		}
	}
	complete, err := certificateStatus(ctx, w, client, namespace, all, time.Now())
	if err != nil {
		return err
	}
	if missing || !complete {
		return errRefused
	}
	return nil
}
