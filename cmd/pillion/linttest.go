package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/lint/cases"
	"github.com/pillion-dev/pillion/templates"
)

// caseFlags say whether lint runs the templates' own cases.
type caseFlags struct{ test, update bool }

func (f *caseFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.test, "test", false, "run the templates' own cases: testdata/NAME/CASE beside each template's file")
	cmd.Flags().BoolVar(&f.update, "update", false, "run them, and write the files of those that fail")
}

// run runs the cases of the documents, which are those in paths, if a flag asks for that.
func (f *caseFlags) run(cmd *cobra.Command, paths []string, documents []lint.Document, options templates.Options, now time.Time) ([]cases.Result, error) {
	if !f.test && !f.update {
		return nil, nil
	}
	o := cases.Options{Compile: options, ExcludedNamespaces: settings.DefaultExcluded(), Update: f.update, Now: now}
	var list []cases.Template
	for _, d := range documents {
		list = append(list, cases.Template{File: d.Source, Document: d.Document})
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			o.Whole = append(o.Whole, path)
		}
	}
	return cases.Run(cmd.Context(), list, o)
}

// triedByCases counts the cases that pass and whose pod gets the template, beside the sample pods: a
// template that only they get was tried.
func triedByCases(linted []lint.Result, results []cases.Result) {
	for i := range linted {
		l := &linted[i]
		for _, r := range results {
			if r.Source == l.Source && r.Template == l.Template && r.Injected && len(r.Problems) == 0 {
				l.Tried++
			}
		}
		if l.Tried > 0 {
			l.Findings = slices.DeleteFunc(l.Findings, func(f lint.Finding) bool { return f.Rule == "untried" && f.Severity == lint.Warning })
		}
	}
}

// report writes the results. The error is errRefused if a case failed.
func (f *caseFlags) report(cmd *cobra.Command, results []cases.Result) error {
	if !f.test && !f.update {
		return nil
	}
	failed := 0
	for _, r := range results {
		for _, name := range r.Updated {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: updated %s\n", r.Case, name)
		}
		if len(r.Problems) == 0 {
			continue
		}
		failed++
		for _, problem := range r.Problems {
			fmt.Fprintf(cmd.OutOrStdout(), "FAIL %s: %s\n", r.Case, strings.TrimRight(problem, "\n"))
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cases: %d passed, %d failed\n", len(results)-failed, failed)
	if failed > 0 {
		return errRefused
	}
	return nil
}
