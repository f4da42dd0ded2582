package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/offline/oracle"
	"github.com/pillion-dev/pillion/offline/samples"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

func newLintCommand() *cobra.Command {
	var o offline
	var f lintFlags
	var cases caseFlags
	cmd := &cobra.Command{
		Use:   "lint [FILE|DIR...]",
		Short: "Check SidecarTemplates before a cluster has them",
		Long: `Lint compiles each SidecarTemplate, as the webhook does, injects it into sample
pods (bundled ones, and yours with --pod), and checks the resulting pods: Jobs
that would never finish, the order of containers, images without a tag, missing
resources, values inside scripts. Each finding has its file, line, template,
path and rule; docs/reference/fields.md lists the rules.

A template that no sample pod gets was not checked, and lint says so: give a pod
that gets it with --pod, or a case that passes with --test. Of a workload lint
takes the pod that its controller creates, with its owner, its labels and the
volumes of its claims.

The rules of the API are not part of that, beyond a table of frequent typing
mistakes. With --server lint also sends the sample pods to the API server, by
dry run, in the namespace of -n: you need the right to create pods there. It is
an error if the API server calls all bundled pods that get the template invalid,
or refuses a pod of yours.

With - it reads templates from standard input.

With --test it also runs the templates' own cases: for a template NAME the
folders testdata/NAME/CASE beside its file, each with a pod.yaml and the
want.yaml that is the resulting pod. docs/how-to/test-templates.md says more.

Exit code 1 if there is an error; with --strict also if there is a warning.`,
		Example: `  pillion lint templates/
  pillion lint templates/ --test
  pillion lint template.yaml --pod deployment.yaml --strict -o json
  pillion lint template.yaml --server -n shop
  kubectl get sct fluent-bit -o yaml | pillion lint -`,
		ValidArgsFunction: anyFile,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{Err: fmt.Errorf("lint needs at least one file or directory")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cases.test && f.output == "json" {
				return usageError{Err: fmt.Errorf("--test writes text; --output json is for findings alone")}
			}
			options, err := o.compileOptions(cmd)
			if err != nil {
				return err
			}
			own, err := f.samples(cmd, &o)
			if err != nil {
				return err
			}
			var documents []lint.Document
			for _, path := range args {
				manifests, err := lintedDocuments(cmd, path)
				if err != nil {
					return err
				}
				documents = append(documents, manifests...)
			}
			linting := lint.Options{Compile: options, Samples: own, Now: nowOr(o.now), Namespace: o.namespace, Stable: func(name string) *templates.Template {
				t, _ := libraryTemplate(name, options) // nil for a name that the library does not have
				return t
			}}
			results := lint.Run(documents, linting)
			if f.server {
				server, err := o.oracle()
				if err != nil {
					return err
				}
				lint.Validate(cmd.Context(), server, documents, results, linting)
			}
			tested, err := cases.run(cmd, args, documents, options, o.now)
			if err != nil {
				return err
			}
			triedByCases(results, tested)
			report := reportOf(results)
			report.server = f.server
			write := writeLintText
			if f.output == "json" {
				write = func(w io.Writer, report lintReport) error { return show.JSON(w, report) }
			}
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if err := cases.report(cmd, tested); err != nil {
				return err
			}
			if report.Errors > 0 || f.strict && report.Warnings > 0 {
				return errRefused
			}
			return nil
		},
	}
	cases.flags(cmd)
	textOrJSON(cmd.Flags(), &f.output)
	cmd.Flags().BoolVar(&f.server, "server", false, "also ask the API server about the sample pods, by dry run")
	clusterFlags(cmd.Flags(), &o.where)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none, and of the dry run (default: the context's)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 for warnings, too")
	cmd.Flags().StringSliceVar(&f.pods, "pod", nil, "file with pods or workloads of yours to inject into (repeatable)")
	cmd.Flags().StringVar(&o.namespaceFile, "namespace-file", "", "file with Namespace objects, for the labels and annotations of --pod's namespaces")
	nowFlag(cmd.Flags(), &o.now)
	o.compileFlags(cmd)
	return cmd
}

// lintedDocuments returns the templates of a file or directory, or of standard input for "-".
func lintedDocuments(cmd *cobra.Command, path string) ([]lint.Document, error) {
	if path != "-" {
		return readManifests(path)
	}
	data, err := readFile(cmd, path)
	if err != nil {
		return nil, err
	}
	documents := documentsOf(path, data)
	if len(documents) == 0 {
		return nil, noTemplate("standard input")
	}
	return documents, nil
}

// lintFlags are the flags that only lint has.
type lintFlags struct {
	output string
	strict bool
	pods   []string
	// server asks the API server.
	server bool
}

// oracle returns an oracle for the API server and the namespace that the flags name.
func (o *offline) oracle() (oracle.Oracle, error) {
	config, err := clusterConfig(o.where)
	if err != nil {
		return oracle.Oracle{}, err
	}
	namespace := o.namespace
	if namespace == "" {
		if namespace, _, err = kubeconfigOf(o.where).Namespace(); err != nil {
			return oracle.Oracle{}, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	return newOracle(config, namespace), nil
}

// samples reads the author's own pods.
func (f *lintFlags) samples(cmd *cobra.Command, o *offline) ([]samples.Sample, error) {
	if len(f.pods) == 0 {
		return nil, nil
	}
	ns, err := o.namespaces(cmd)
	if err != nil {
		return nil, err
	}
	var own []samples.Sample
	for _, file := range f.pods {
		documents, err := readDocuments(cmd, file)
		if err != nil {
			return nil, err
		}
		found := len(own)
		for _, d := range documents {
			if _, _, err := changePods(file, d, func(p workload.Pod) (map[string]any, error) {
				namespace, _ := ns.Find(p.Namespace)
				own = append(own, samples.Sample{Name: fmt.Sprintf("%s of %s", p.Owner, file), Pod: p.Created(namespace.Name), Namespace: namespace})
				return p.Object, nil
			}); err != nil {
				return nil, err
			}
		}
		if len(own) == found {
			return nil, fmt.Errorf("reading sample pods: there is neither a pod nor a workload in %s", file)
		}
	}
	return own, nil
}

// lintReport is the output of lint.
type lintReport struct {
	Templates []lintedTemplate `json:"templates"`
	Errors    int              `json:"errors"`
	Warnings  int              `json:"warnings"`

	// server: the API server was asked.
	server bool
}

// lintedTemplate is a result. OK: it has no error.
type lintedTemplate struct {
	lint.Result
	OK bool `json:"ok"`
}

func reportOf(results []lint.Result) lintReport {
	var report lintReport
	for _, r := range results {
		t := lintedTemplate{r, true}
		t.Findings = append([]lint.Finding{}, r.Findings...)
		for _, f := range r.Findings {
			switch f.Severity {
			case lint.Error:
				report.Errors++
				t.OK = false
			case lint.Warning:
				report.Warnings++
			}
		}
		report.Templates = append(report.Templates, t)
	}
	return report
}

func writeLintText(w io.Writer, report lintReport) error {
	untried := 0
	for _, t := range report.Templates {
		if t.OK && t.Tried == 0 {
			untried++
		}
		for _, f := range t.Findings {
			fmt.Fprintln(w, f)
		}
		switch {
		case t.OK && t.Tried == 0:
			fmt.Fprintf(w, "%s: template %s: compiles, and was not tried on any pod (hash %s)\n", t.Source, t.Template, t.Hash)
		case t.OK:
			fmt.Fprintf(w, "%s: template %s: ok (hash %s)\n", t.Source, t.Template, t.Hash)
		}
	}
	last := fmt.Sprintf("templates: %d, errors: %d, warnings: %d", len(report.Templates), report.Errors, report.Warnings)
	if untried > 0 {
		last += fmt.Sprintf(", not tried: %d", untried)
	}
	if !report.server {
		last += "\nmost rules of the API are not part of this: pillion lint FILE --server asks the API server"
	}
	_, err := fmt.Fprintln(w, last)
	return err
}
