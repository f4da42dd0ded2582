package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/lint/oracle"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/samples"
	"github.com/pillion-dev/pillion/templates/show"
)

// lintCommand has the flags of the command.
type lintCommand struct {
	source source
	cases  caseFlags
	output string
	// strict: the exit code is 1 for warnings, too. server: the API server is asked.
	strict, server bool
	// pods are files with the author's own sample pods.
	pods []string
	// values is a file of the chart's values.
	values string
}

func newLintCommand() *cobra.Command {
	var l lintCommand
	cmd := &cobra.Command{
		Use:   "lint [FILE|DIR...]",
		Short: "Check SidecarTemplates before a cluster has them",
		Long: `Lint compiles each SidecarTemplate, as the webhook does, injects it into sample
pods (bundled ones, and yours with --pod), and checks the resulting pods: Jobs
that would never finish, the order of containers, images without a tag, missing
resources, values inside scripts. Each finding has its file, line, template,
path and rule; docs/reference/lint-rules.md lists the rules.

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

With -f it takes a file of the chart's values, as helm upgrade -f does, and
checks the templates that the chart renders of library, templates and
parameterDefaults.

With --test it also runs the templates' own cases: for a template NAME the
folders testdata/NAME/CASE beside its file, each with a pod.yaml and the
want.yaml that is the resulting pod. docs/how-to/test-templates.md says more.

Exit code 1 if there is an error; with --strict also if there is a warning.`,
		Example: `  pillion lint templates/
  pillion lint -f values.yaml
  pillion lint templates/ --test
  pillion lint template.yaml --pod deployment.yaml --strict -o json
  pillion lint template.yaml --server -n shop
  kubectl get sct fluent-bit -o yaml | pillion lint -`,
		ValidArgsFunction: anyFile,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && l.values == "" {
				return usageError{Err: errors.New("lint needs at least one file or directory, or -f with a file of the chart's values")}
			}
			return nil
		},
		RunE: l.run,
	}
	f := cmd.Flags()
	l.cases.flags(cmd)
	textOrJSON(f, &l.output)
	f.StringVarP(&l.values, "chart-values", "f", "", "file of the chart's values, as for helm -f: check the templates that the chart renders of it")
	f.BoolVar(&l.server, "server", false, "also ask the API server about the sample pods, by dry run")
	clusterFlags(f, &l.source.place)
	f.StringVarP(&l.source.Namespace, "namespace", "n", "", "namespace of objects that name none, and of the dry run (default: the context's)")
	f.BoolVar(&l.strict, "strict", false, "exit with 1 for warnings, too")
	f.StringSliceVar(&l.pods, "pod", nil, "file with pods or workloads of yours to inject into (repeatable)")
	f.StringVar(&l.source.NamespaceFile, "namespace-file", "", "file with Namespace objects, for the labels and annotations of --pod's namespaces")
	manifests.AddNowFlag(f, &l.source.Now)
	l.source.AddCompileFlags(f)
	return cmd
}

func (l *lintCommand) run(cmd *cobra.Command, args []string) error {
	if l.cases.test && l.output == "json" {
		return usageError{Err: errors.New("--test writes text; --output json is for findings alone")}
	}
	options, err := l.options(cmd)
	if err != nil {
		return err
	}
	documents, err := lintDocuments(cmd, args)
	if err != nil {
		return err
	}
	var release *manifests.Release
	if l.values != "" {
		if release, err = readRelease(cmd, l.values, &options.Compile); err != nil {
			return err
		}
		for _, t := range release.Templates {
			documents = append(documents, lint.Document(t))
		}
	}
	results := lint.Run(documents, options)
	if l.server {
		server, err := l.oracle()
		if err != nil {
			return err
		}
		lint.Validate(cmd.Context(), server, documents, results, options)
	}
	tests, err := l.cases.run(cmd, args, documents, options.Compile, l.source.Now)
	if err != nil {
		return err
	}
	triedByCases(results, tests)
	results = inValues(l.values, release, results)
	report := lint.NewReport(results)
	if err := l.write(cmd, report); err != nil {
		return err
	}
	if err := l.cases.report(cmd, tests); err != nil {
		return err
	}
	if report.Errors > 0 || l.strict && report.Warnings > 0 {
		return errRefused
	}
	return nil
}

// options returns the inputs of lint besides the templates.
func (l *lintCommand) options(cmd *cobra.Command) (lint.Options, error) {
	compile, err := l.source.CompileOptions(cmd.InOrStdin())
	if err != nil {
		return lint.Options{}, err
	}
	own, err := l.samples(cmd)
	return lint.Options{
		Compile: compile, Samples: own, Now: manifests.TimeOrNow(l.source.Now), Namespace: l.source.Namespace,
		Stable: func(name string) *templates.Template {
			t, _ := manifests.LibraryTemplate(name, compile) // nil for a name that the library does not have
			return t
		},
	}, err
}

// readRelease reads a file of the chart's values, and sets the values that templates see.
func readRelease(cmd *cobra.Command, file string, o *templates.Options) (*manifests.Release, error) {
	data, err := manifests.ReadFile(cmd.InOrStdin(), file)
	if err != nil {
		return nil, err
	}
	release, err := manifests.ReadRelease(file, data, *o)
	if err != nil {
		return nil, err
	}
	*o = release.Options
	return release, nil
}

// inValues gives the findings about templates of a file of values their places there, and adds those about the
// values themselves.
func inValues(file string, release *manifests.Release, results []lint.Result) []lint.Result {
	if release == nil {
		return results
	}
	for i := range results {
		for j := range results[i].Findings {
			if f := &results[i].Findings[j]; f.Source == file {
				f.Path, f.Line = release.Place(f.Template, f.Path)
			}
		}
	}
	of := lint.Result{Source: file}
	for _, m := range release.Mistakes {
		of.Findings = append(of.Findings, lint.Finding{Severity: lint.Error, Rule: "values", Source: file, Path: m.Path, Line: m.Line, Message: m.Message})
	}
	if len(of.Findings) == 0 {
		return results
	}
	return append(results, of)
}

// lintDocuments returns the templates of files and directories, and of standard input for "-".
func lintDocuments(cmd *cobra.Command, paths []string) ([]lint.Document, error) {
	var documents []lint.Document
	for _, path := range paths {
		read := manifests.ReadTemplates
		if path == "-" {
			read = func(string) ([]manifests.Template, error) { return manifests.ReadTemplatesFrom(cmd.InOrStdin()) }
		}
		files, err := read(path)
		if err != nil {
			return nil, err
		}
		for _, t := range files {
			documents = append(documents, lint.Document(t))
		}
	}
	return documents, nil
}

// oracle returns an oracle for the API server and the namespace that the flags name.
func (l *lintCommand) oracle() (oracle.Oracle, error) {
	config, err := clusterConfig(l.source.place)
	if err != nil {
		return oracle.Oracle{}, err
	}
	namespace, err := l.source.namespace()
	return oracle.Oracle{Create: clientset.DryRunPod(config, namespace)}, err
}

// samples reads the author's own pods.
func (l *lintCommand) samples(cmd *cobra.Command) ([]samples.Sample, error) {
	if len(l.pods) == 0 {
		return nil, nil
	}
	ns, err := l.source.Namespaces(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	var own []samples.Sample
	for _, file := range l.pods {
		documents, err := manifests.ReadDocuments(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		var ofFile []samples.Sample
		for _, d := range documents {
			if _, _, err := manifests.ChangePods(file, d, func(p workload.Pod) (map[string]any, error) {
				namespace, _ := ns.Find(p.Namespace)
				ofFile = append(ofFile, samples.Sample{Name: fmt.Sprintf("%s of %s", p.Owner, file), Pod: p.Created(namespace.Name), Namespace: namespace})
				return p.Object, nil
			}); err != nil {
				return nil, err
			}
		}
		if len(ofFile) == 0 {
			return nil, fmt.Errorf("reading sample pods: there is neither a pod nor a workload in %s", file)
		}
		own = slices.Concat(own, ofFile)
	}
	return own, nil
}

// write prints the report.
func (l *lintCommand) write(cmd *cobra.Command, report lint.Report) error {
	if l.output == "json" {
		return show.JSON(cmd.OutOrStdout(), report)
	}
	hint := "most rules of the API are not part of this: pillion lint FILE --server asks the API server"
	if l.server {
		hint = ""
	}
	return report.WriteText(cmd.OutOrStdout(), hint)
}
