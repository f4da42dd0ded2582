package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/keys"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/offline/explain"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
)

// explainCommand has the flags of the command.
type explainCommand struct {
	given  offline
	where  installation
	output string
	colour string
	chain  bool
}

func newExplainCommand() *cobra.Command {
	var c explainCommand
	cmd := &cobra.Command{
		Use:   "explain pod/NAME | deploy/NAME | ns/NAME | -f FILE",
		Short: "Say why a pod gets its sidecars, or does not",
		Long: `Explain shows each rule of the decision with its input and its result, each parameter
with the level that it came from, what is merged where, what stays the pod's, and what
refuses the pod afterwards: the API's rules, Pod Security, LimitRanges and quotas.

  pod/NAME     a pod that exists: what it has against what it would get now (injected
               already, outdated, missing), and whether Pillion was called for it
  deploy/NAME  the pod that a workload creates, and how its running pods stand; also
               sts, ds, rs, rc, job and cj. As in kubectl, 'deploy NAME' says the same
  ns/NAME      a namespace: its label and annotations, and what a plain pod gets there
  -f FILE      the pods of a file, by files alone: --templates, --values, --namespace-file.
               With --cluster, by the cluster's templates, values and namespaces

With --chain, explain adds every mutating and validating webhook and policy that the pod
meets, in the order in which API servers call them, and what Pillion sees of each.

A cluster is read with your own rights. Templates, values, prefix and scope are the
server's, from Pillion's Deployment, its ConfigMaps and the SidecarTemplates. Where you
may not read them, explain takes the templates that the API shows, asks the API server
for a dry run of the pod, and says what is missing and which command grants it.

The exit code is 1 if a pod is refused, or would be if it were created now.`,
		Example: `  pillion explain -n shop deploy/web
  pillion explain -n shop pod/web-5d8f7c9b6-x2x9q -o json
  pillion explain ns/shop
  pillion explain -n shop deploy/web --chain
  pillion explain -f deployment.yaml --namespace-file namespace.yaml
  pillion explain --cluster -n shop -f deployment.yaml`,
		RunE: c.run,
	}
	c.given.podFlags(cmd)
	c.given.clusterFlag(cmd, &c.where)
	cmd.Flags().StringVarP(&c.output, "output", "o", "text", "text or json")
	cmd.Flags().BoolVar(&c.chain, "chain", false, "add every admission webhook and policy that the pod meets, in the order of calls")
	colourFlag(cmd.Flags(), &c.colour)
	return cmd
}

func (c *explainCommand) run(cmd *cobra.Command, args []string) error {
	if c.output != "text" && c.output != "json" {
		return usageError{fmt.Errorf("output %q; allowed are text, json", c.output)}
	}
	style, err := styleFor(cmd.OutOrStdout(), c.colour)
	if err != nil {
		return err
	}
	targets, err := parseObjects(args)
	if err != nil {
		return err
	}
	var report explain.Report
	switch {
	case c.chain && len(targets) == 0 && !c.given.inCluster:
		return usageError{errors.New("--chain is about a cluster: name an object of it, or add --cluster to -f")}
	case len(targets) > 0 && c.given.file != "":
		return usageError{fmt.Errorf("-f %s and %s: give one of both", c.given.file, args[0])}
	case len(targets) > 0:
		report, err = c.live(cmd, targets)
	case c.given.file == "":
		return usageError{errors.New("name what to explain: pod/NAME, deploy/NAME, ns/NAME or -f FILE")}
	default:
		report, err = c.files(cmd)
	}
	if err != nil {
		return err
	}
	aim{c.where.kubeconfig, c.where.context}.explain(report)
	if report.Notes == nil {
		report.Notes = []explain.Note{}
	}
	if c.output == "json" {
		err = report.JSON(cmd.OutOrStdout())
	} else {
		err = report.Text(cmd.OutOrStdout(), style)
	}
	if err == nil && report.Refused() {
		err = errRefused
	}
	return err
}

// files explains the pods of a file.
func (c *explainCommand) files(cmd *cobra.Command) (explain.Report, error) {
	report := explain.Report{Pods: []explain.Pod{}}
	s, err := c.given.open(cmd)
	if err != nil {
		return report, err
	}
	if s.cluster != nil {
		s.cluster.chain = c.chain
	}
	for _, d := range s.documents {
		_, _, err := changePods(s.file, d, func(p workload.Pod) (map[string]any, error) {
			explained, err := s.explain(cmd.Context(), p)
			if err == nil {
				report.Pods = append(report.Pods, explained)
			}
			return p.Object, err
		})
		if err != nil {
			return report, err
		}
	}
	s.warnOfTheRest(cmd.ErrOrStderr())
	if len(report.Pods) == 0 {
		return report, fmt.Errorf("reading %s: there is neither a pod nor a workload in it", c.given.file)
	}
	if s.cluster != nil {
		report.Notes = s.cluster.notes
	}
	return report, nil
}

// explain explains a pod of a file.
func (s *session) explain(ctx context.Context, p workload.Pod) (explain.Pod, error) {
	ns, known := s.namespaces.of(p.Namespace)
	now, err := s.standing(ctx, p, ns.Name)
	if err != nil {
		return explain.Pod{}, err
	}
	created := p.Created(ns.Name)
	if now != nil {
		created = now.Base
	}
	out, err := s.outcomeOf(ctx, created, ns, injector.Request{Explain: true})
	if err != nil {
		return explain.Pod{}, err
	}
	in := explain.Input{
		Name: p.Owner, Namespace: ns.Name, Outcome: out.Outcome, Troubles: out.troubles, Standing: now,
		Templates: s.set, Values: s.values,
	}
	if s.cluster != nil {
		in.Approximate = s.cluster.settings.approximate
	}
	if !known {
		in.Unknown = s.namespaces.unknown(ns.Name)
	}
	in.Keys = s.keysOf(p, ns, out.Outcome)
	explained := explain.Of(in)
	explained.Notes = append(explained.Notes, s.namespaces.notes[ns.Name]...)
	if s.cluster == nil {
		explained.Notes = append(explained.Notes, s.fileNotes(ns.Name, known, now)...)
	} else {
		called := s.cluster.called(s.namespaces.live[ns.Name], created, nil)
		explained.Called = &called
		if err := s.cluster.link(ctx, &explained, ns, created, out.Pod); err != nil {
			return explained, err
		}
	}
	return explained, nil
}

// keysOf finds the keys under the prefix that mean nothing, of a pod or of a workload and its
// pod template.
func (s *session) keysOf(p workload.Pod, ns templates.Namespace, out injector.Outcome) []keys.Finding {
	if s.cluster != nil && s.cluster.settings.set == nil {
		return nil
	}
	rules := keys.Rules{Prefix: s.prefix, Templates: s.set, Namespace: ns.Labels, Concerned: explain.Concerned(out)}
	ofPod := keys.Object{Level: keys.Pod, Kind: "pod"}
	ofPod.Labels, ofPod.Annotations = metadataOf(p.Object)
	var found []keys.Finding
	if kind, _, _ := strings.Cut(p.Owner, "/"); kind != "Pod" && p.Holder() != nil {
		of := keys.Object{Level: keys.Workload, Kind: kind, PodLabels: ofPod.Labels, PodAnnotations: ofPod.Annotations}
		of.Labels, of.Annotations = metadataOf(p.Holder())
		found = keys.Check(rules, of)
	}
	return append(found, keys.Check(rules, ofPod)...)
}

// metadataOf returns an object's labels and annotations.
func metadataOf(object map[string]any) (labels, annotations map[string]string) {
	u := unstructured.Unstructured{Object: object}
	return u.GetLabels(), u.GetAnnotations()
}

// standing compares a pod of a file that exists, or has a record, with one that is created now.
// A pod that is yet to be created has no standing.
func (s *session) standing(ctx context.Context, p workload.Pod, namespace string) (*standing.Standing, error) {
	metadata, _ := p.Object["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	rec, _ := record.Parse(p.Object, s.prefix+"/status") // the run warns of a record that cannot be read
	if uid == "" && rec.Empty() {
		return nil, nil
	}
	ns, _ := s.namespaces.of(namespace)
	found, err := s.compare.Compare(ctx, p.Created(namespace), ns, s.set)
	if err != nil || !found.Counts {
		return nil, err
	}
	return &found, nil
}

// fileNotes are about facts that the files do not have.
func (s *session) fileNotes(namespace string, known bool, now *standing.Standing) []explain.Note {
	var notes []explain.Note
	say := func(format string, args ...any) {
		notes = append(notes, explain.Note{Says: fmt.Sprintf(format, args...)})
	}
	if !known {
		say("no --namespace-file has the namespace %s: it counts as one without annotations, and with no label but its name", namespace)
	}
	if now == nil {
		return notes
	}
	for _, name := range standing.Named(now.Templates, standing.Dropped) {
		say("%s was injected before (%s/status), and would not be injected with these files: check the namespace and --templates", name, s.prefix)
	}
	return notes
}
