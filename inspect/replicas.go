package inspect

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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/webhook"
	"github.com/pillion-dev/pillion/webhook/state"
)

// answerTimeout bounds the requests to one replica.
const answerTimeout = 5 * time.Second

// Replica is a running replica of the server.
type Replica struct {
	name string
	// created is the creation time of its pod, or zero.
	created time.Time
	// get fetches a path of the admin port. It may return a body together with an error.
	get func(ctx context.Context, path string) ([]byte, error)
}

// NewReplica returns a replica with its reader of the admin port.
func NewReplica(name string, get func(ctx context.Context, path string) ([]byte, error)) Replica {
	return Replica{name: name, get: get}
}

// FindReplicas returns the replicas of URLs or, without URLs, the running pods in Pillion's
// namespace with its container. notRunning has a line for each such pod that does not run.
func (c *Cluster) FindReplicas(ctx context.Context) (found []Replica, notRunning []string, err error) {
	for _, url := range c.URLs {
		found = append(found, NewReplica(url, getURL(strings.TrimSuffix(url, "/"))))
	}
	if len(found) > 0 {
		return found, nil, nil
	}
	pods, err := List[corev1.Pod](ctx, c, PodsResource, c.Namespace, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("looking for Pillion's pods in namespace %s: %w", c.Namespace, err)
	}
	for _, pod := range pods {
		own := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == Container })
		switch {
		case pod.DeletionTimestamp != nil || own < 0:
		case pod.Status.Phase != corev1.PodRunning:
			notRunning = append(notRunning, fmt.Sprintf("not running: %s: %s", pod.Name, show.Plain(strings.TrimSuffix(string(pod.Status.Phase)+": "+waitingReason(pod.Status), ": "))))
		default:
			port := adminPort(pod.Spec.Containers[own])
			found = append(found, Replica{name: pod.Name, created: pod.CreationTimestamp.Time, get: func(ctx context.Context, path string) ([]byte, error) {
				return c.Proxy(ctx, pod.Name, port, path)
			}})
		}
	}
	return found, notRunning, nil
}

// DefaultAdminPort is the admin port of a container that declares none.
const DefaultAdminPort = 8080

// adminPort returns the port of probes, metrics and state.
func adminPort(container corev1.Container) int {
	for _, p := range container.Ports {
		if p.Name == "admin" {
			return int(p.ContainerPort)
		}
	}
	return DefaultAdminPort
}

// waitingReason returns the reason in a pod's status why the pod does not run, or "".
func waitingReason(s corev1.PodStatus) string {
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return strings.TrimSuffix(s.Reason+": "+s.Message, ": ")
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 8 << 20

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
		body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return body, err
	}
}

// getState reads the readiness and the state of the replica.
func (r Replica) getState(ctx context.Context) state.Replica {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	a := state.Replica{Name: r.name, Created: r.created, State: state.State{Templates: map[string]string{}}}
	if body, err := r.get(ctx, "/readyz"); err != nil {
		a.Missing = notReady(body, err)
	}
	body, err := r.get(ctx, state.Path)
	if err != nil {
		return a
	}
	if a.State, err = state.Decode(body); err != nil {
		a.Missing = strings.TrimPrefix(a.Missing+"; reading the state: "+err.Error(), "; ")
	}
	a.Answers = err == nil
	a.Ready = a.Answers && a.Missing == ""
	return a
}

// notReady returns the reason why a request for /readyz failed: the replica's answer or, if
// the API server could not reach the replica, the API server's answer.
func notReady(body []byte, err error) string {
	if missing, ok := webhook.ParseNotReady(body); ok {
		return missing
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return err.Error()
}

// GetStates reads the state of every replica. It sorts them by name.
func GetStates(ctx context.Context, replicas []Replica) []state.Replica {
	var all []state.Replica
	for _, r := range replicas {
		all = append(all, r.getState(ctx))
	}
	slices.SortFunc(all, func(a, b state.Replica) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Replicas returns the states of the running replicas.
func (c *Cluster) Replicas(ctx context.Context) ([]state.Replica, error) {
	replicas, _, err := c.FindReplicas(ctx)
	if err != nil {
		return nil, err
	}
	return GetStates(ctx, replicas), nil
}

// NoReplicas returns the message for a namespace without replicas.
func NoReplicas(namespace string) string {
	return fmt.Sprintf("no replicas: no running pod in namespace %s has a container called %s; --pillion-namespace names Pillion's namespace", namespace, Container)
}

// Problems returns a line for each reason why a replica is not ready, and for each failure.
func Problems(namespace string, all []state.Replica) []string {
	var lines []string
	if len(all) == 0 {
		lines = append(lines, NoReplicas(namespace))
	}
	for _, a := range all {
		for line := range strings.Lines(a.Missing) {
			lines = append(lines, fmt.Sprintf("not ready: %s: %s", a.Name, show.Plain(strings.TrimSpace(line))))
		}
	}
	for _, a := range all {
		for _, p := range a.Problems() {
			lines = append(lines, fmt.Sprintf("failing: %s: %s; its log says why", a.Name, p))
		}
	}
	return lines
}

// Warnings returns a line for each template of which a replica has only an old version.
func Warnings(all []state.Replica) []string {
	var lines []string
	for _, a := range all {
		for _, name := range a.Broken {
			lines = append(lines, fmt.Sprintf("warning: %s: template %s: its newest version cannot be used, or is gone; its log says why", a.Name, name))
		}
	}
	return lines
}

// Skew returns a line for each template for which this program has another hash than all replicas.
// The program compiles templates as its own version does.
func Skew(all []state.Replica, set *templates.Set, version string) []string {
	applied := map[string][]string{}
	for _, a := range all {
		for name, hash := range a.Templates {
			applied[name] = append(applied[name], hash)
		}
	}
	var notes []string
	for _, e := range set.All() {
		if hashes := applied[e.Name]; set.HashOf(e) != "" && len(hashes) > 0 && !slices.Contains(hashes, set.HashOf(e)) {
			notes = append(notes, fmt.Sprintf("template %s: the replicas apply %s, and this pillion (%s) compares with %s, so what it says about the template's pods is wrong; use the pillion of the replicas' version",
				e.Name, hashes[0], version, set.HashOf(e)))
		}
	}
	return notes
}
