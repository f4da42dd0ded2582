package manifests

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// Options are the flags of commands that work on files.
type Options struct {
	// Templates are files and directories of SidecarTemplates. Library are names of library templates; empty: all.
	Templates, Library []string
	// Values is the file of the installer's values. ValuesText has the values themselves, in place of a file.
	Values, ValuesText string
	ForeignSidecars    []string
	// Namespace is for objects that name none.
	Namespace string
	// NamespaceFile has Namespace objects.
	NamespaceFile string
	// Objects are the objects that come with the pods. The SidecarTemplates and the Namespaces among
	// them count as those of Templates and NamespaceFile.
	Objects []map[string]any
	// Now is the time of the decision. Zero is the real time.
	Now time.Time
}

const foreignUsage = "containers of other injectors, by name: $each: App and $each: Init skip them, except in required templates (empty: none)"

// AddFlags adds the flags that decide which sidecars are injected, for which namespaces.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of objects that name none (with a cluster: default the context's)")
	f.StringVar(&o.NamespaceFile, "namespace-file", "", "file with Namespace objects, for their labels and annotations")
	AddNowFlag(f, &o.Now)
	o.AddTemplateFlags(f)
}

// AddTemplateFlags adds the flags of templates.
func (o *Options) AddTemplateFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Templates, "templates", nil, "file or directory of SidecarTemplates (repeatable)")
	f.StringSliceVar(&o.Library, "library", nil, "names of library templates to use (default: all of them)")
	o.AddCompileFlags(f)
}

// AddCompileFlags adds the server's settings that templates are compiled with.
func (o *Options) AddCompileFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Values, "values", "", "YAML file of the installer's values, which templates read as 'values'")
	f.StringSliceVar(&o.ForeignSidecars, "foreign-sidecars", templates.DefaultForeignSidecars(), foreignUsage)
}

// AddNowFlag adds --now.
func AddNowFlag(f *pflag.FlagSet, now *time.Time) {
	f.TimeVar(now, "now", time.Time{}, []string{time.RFC3339}, "decide as at this time, by which exceptions of required templates end, such as 2027-03-31T00:00:00Z (default: the real time)")
}

// At returns a pipeline that decides at the time of --now.
func (o *Options) At(p *injector.Pipeline) *injector.Pipeline {
	if o.Now.IsZero() {
		return p
	}
	return p.At(o.Now)
}

// TimeOrNow returns the time of --now, or the real time.
func TimeOrNow(now time.Time) time.Time {
	if now.IsZero() {
		return time.Now()
	}
	return now
}
