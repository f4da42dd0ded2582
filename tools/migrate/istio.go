package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates/show"
)

var (
	// action is one of Go's text templates, and logic one that decides what follows.
	action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	logic  = regexp.MustCompile(`\A\{\{-?\s*(if|else|end|range|with|define|template|block|break|continue|/\*|\$)`)
	// marked stands for an action while YAML is read.
	marked = regexp.MustCompile("\uE000([0-9]+)\uE001")
)

// istioValues reads the custom templates in the values of an IstioOperator, or of an Istio.
func (i *importer) istioValues(o map[string]any) {
	i.istioTemplates(workload.NameOf(o), at(o, "spec", "values", "sidecarInjectorWebhook"))
}

// istioTemplates reads Istio's injection templates, by their names.
func (i *importer) istioTemplates(of string, from any) {
	all := objectAt(from, "templates")
	if len(all) == 0 {
		i.noteAbout(of, "", "has no injection templates (sidecarInjectorWebhook.templates)")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, _ := all[name].(string)
		i.istioTemplate(of, name, text, objectAt(from))
	}
	for _, field := range []string{"defaultTemplates", "aliases"} {
		if at(from, field) != nil {
			i.noteAbout(of, field, "which templates count by themselves is said on each: injectByDefault, or match")
		}
	}
}

// istioTemplate reads one template: a pod as YAML, in which actions of text/template may stand. From
// is the configuration around it.
func (i *importer) istioTemplate(of, name, text string, from map[string]any) {
	d := i.draft(of+" template "+name, name)
	var actions, decisions []string
	text = action.ReplaceAllStringFunc(text, func(a string) string {
		if actions = append(actions, a); logic.MatchString(a) && !slices.Contains(decisions, a) {
			decisions = append(decisions, a)
		}
		return fmt.Sprintf("\uE000%d\uE001", len(actions)-1)
	})
	if len(decisions) > 0 {
		for _, a := range decisions {
			d.addNote("", fmt.Sprintf("%s decides what the template is: it is no data", show.Value(strings.Join(strings.Fields(a), " "))))
		}
		d.addNote("", "no template is made: write its cases with $if, $for and parameters; the library has istio-proxy")
		return
	}
	d.code = marked
	d.source = func(text string) string {
		return marked.ReplaceAllStringFunc(text, func(m string) string {
			n, err := strconv.Atoi(marked.FindStringSubmatch(m)[1])
			if err != nil || n >= len(actions) {
				return m // the text has the mark by itself
			}
			return actions[n]
		})
	}
	documents, err := workload.Parse([]byte(text))
	if err != nil || len(documents) != 1 {
		d.addNote("", fmt.Sprintf("is not one YAML document (%v): no template is made", err))
		return
	}
	d.pod(documents[0].Object, "")
	if d.spec["inject"] != nil {
		d.marks("annotations", d.object(from["injectedAnnotations"], "injectedAnnotations"), "injectedAnnotations")
	}
	if len(listAt(from, "neverInjectSelector")) > 0 {
		d.suspend("neverInjectSelector", "pods that it selects get nothing there: write a podSelector with NotIn or DoesNotExist in match")
	}
	d.finish()
	d.addNote("", "pods ask for it by the annotation inject.istio.io/templates; for Pillion write pillion.dev/inject with the template's name, on the pod or on its namespace")
}
