package explain

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Text writes the report as text.
func (r Report) Text(w io.Writer, s Style) error {
	l := newLayout(s)
	for i, ns := range r.Namespaces {
		if i > 0 {
			l.blank()
		}
		ns.text(l)
	}
	for i, p := range r.Pods {
		if i > 0 || len(r.Namespaces) > 0 {
			l.blank()
		}
		p.text(l)
	}
	if len(r.Notes) > 0 {
		l.blank()
		for _, note := range r.Notes {
			note.text(l, 0, "note: ")
		}
	}
	_, err := io.WriteString(w, l.b.String())
	return err
}

// text writes the note, and each command on a line of its own.
func (n Note) text(l *layout, indent int, label string) {
	l.text(indent, label+n.Text, yellow)
	l.commands(indent+4, n.Remedy)
}

func (n Namespace) text(l *layout) {
	l.heading("Namespace/" + n.Name)
	rows := []row{{label: "called", text: n.Called}}
	for _, key := range slices.Sorted(maps.Keys(n.Annotations)) {
		rows = append(rows, row{label: "annotation", text: fmt.Sprintf("%s: %q", key, n.Annotations[key])})
	}
	if len(n.Annotations) == 0 {
		rows = append(rows, row{label: "annotations", text: "none under Pillion's prefix"})
	}
	for _, k := range n.Keys {
		rows = append(rows, row{label: "warning", text: k, colour: yellow})
	}
	l.rows(2, rows)
}

func (p Pod) text(l *layout) {
	l.text(0, fmt.Sprintf("%s in namespace %s: %s", p.Name, p.Namespace, p.Verdict), p.colour())
	if p.Called != nil {
		l.heading("Is Pillion called")
		rows := []row{{label: "now", text: p.Called.Why, colour: calledColour(*p.Called)}}
		if p.Called.Then != "" {
			rows = append(rows, row{label: "then", text: p.Called.Then})
		}
		l.rows(2, rows)
	}
	p.standings(l)
	p.rules(l)
	p.parameters(l)
	p.effects(l)
	p.running(l)
	p.dryRun(l)
	p.writeNotes(l)
}

func (p Pod) colour() colour {
	switch {
	case p.Refused:
		return red
	case FormatDifference(&drift.Comparison{Templates: p.Standings}) != "":
		return yellow
	case p.Code == reason.Injected:
		return green
	}
	return bold
}

func calledColour(c CallState) colour {
	switch {
	case !c.IsKnown:
		return yellow
	case c.Now:
		return green
	}
	return plain
}

func (p Pod) standings(l *layout) {
	if len(p.Standings) == 0 {
		return
	}
	l.heading("This pod, compared with a new one")
	var rows []row
	for _, s := range p.Standings {
		rows = append(rows, standingRow(s))
	}
	for _, d := range p.Differences {
		rows = append(rows, row{label: "differs", text: d})
	}
	l.rows(2, rows)
}

func standingRow(s drift.Template) row {
	r := row{label: s.Name}
	switch s.State {
	case drift.Current:
		r.text, r.colour = "injected already, version "+s.Has, green
		if s.Has != s.Gets {
			r.text += fmt.Sprintf("; version %s, which is in force, changes nothing in this pod", s.Gets)
		}
	case drift.Outdated:
		r.text, r.colour = fmt.Sprintf("outdated: the pod has version %s, a new one gets %s", s.Has, s.Gets), yellow
		if s.Has == s.Gets {
			r.text = fmt.Sprintf("outdated: version %s with other parameters", s.Has)
		}
	case drift.Missing:
		r.text, r.colour = "missing: a new pod gets version "+s.Gets, yellow
	case StateUnknown:
		r.text = "the pod has version " + s.Has
		if s.Gets != "" {
			r.text = fmt.Sprintf("perhaps outdated: the pod has version %s, a new one gets %s; your rights do not show what differs", s.Has, s.Gets)
		}
	case drift.Dropped:
		r.text = fmt.Sprintf("the pod has version %s, and a new one does not get it (%s)", s.Has, s.Code)
	default:
		r.text, r.colour = fmt.Sprintf("the pod has version %s, and a new one would be refused (%s)", s.Has, s.Code), red
	}
	return r
}

// ofTemplate is the prefix of rules about one template.
const ofTemplate = "template "

func (p Pod) rules(l *layout) {
	if len(p.Rules) > 0 {
		l.heading("Rules")
	}
	var rows []row
	for i := 0; i < len(p.Rules); i++ {
		r := p.Rules[i]
		// Equal results of many templates share a line.
		var names []string
		for ; i < len(p.Rules) && p.Rules[i].Input == r.Input && p.Rules[i].Result == r.Result && strings.HasPrefix(p.Rules[i].Rule, ofTemplate); i++ {
			names = append(names, strings.TrimPrefix(p.Rules[i].Rule, ofTemplate))
		}
		label := r.Rule
		if len(names) > 0 {
			i--
		}
		text := r.Input + " → " + r.Result
		switch {
		case len(names) > 1 && len(names) == len(p.Templates):
			label = "all templates"
		case len(names) > 1:
			label, text = "templates", text+": "+strings.Join(names, ", ")
		}
		rows = append(rows, row{label: label, text: text})
	}
	if len(p.NotAsked) > 0 {
		rows = append(rows, row{label: "not asked for", text: fmt.Sprintf("%s (%s)", strings.Join(p.NotAsked, ", "), reason.NotRequested), colour: dim})
	}
	l.rows(2, rows)
}

func (p Pod) parameters(l *layout) {
	for _, t := range p.Templates {
		if len(t.Parameters) == 0 {
			continue
		}
		l.heading("Parameters of " + t.Name)
		var rows []row
		for _, parameter := range t.Parameters {
			from := parameter.From
			if from == "Namespace" || from == "Pod" {
				from += ", " + parameter.Annotation
			}
			rows = append(rows, row{label: parameter.Name, text: fmt.Sprintf("%s (%s)", Value(parameter.Value), from)})
		}
		l.rows(2, rows)
	}
}

func (p Pod) effects(l *layout) {
	if len(p.Effects) > 0 {
		l.heading("Merged into the pod")
		var rows []row
		for _, e := range p.Effects {
			rows = append(rows, row{label: string(e.Effect), text: effectText(e)})
		}
		l.rows(2, rows)
	}
	if len(p.KeptValues) == 0 {
		return
	}
	l.heading("The pod's value wins")
	for _, k := range p.KeptValues {
		wants := "sets nothing there"
		if k.Wants != nil {
			wants = "sets " + Value(k.Wants)
		}
		l.text(2, fmt.Sprintf("%s: %s; %s %s; %s", k.Path, Value(k.Has), k.Template, wants, keptText(k)), plain)
	}
}

// keptText formats the reason why a value of the pod stays.
func keptText(k injector.PodValue) string {
	switch k.Why {
	case merge.KeptByNode:
		return "the template says $onConflict: KeepPod there"
	case merge.KeptByTemplate:
		return "the template says onConflict: KeepPod"
	case merge.KeptByOverridable:
		return "the template is overridable, and the pod declares the container itself"
	}
	switch {
	case strings.HasPrefix(k.Path, "metadata.labels"):
		return "labels belong to the pod's author"
	case strings.HasPrefix(k.Path, "metadata.annotations"):
		return "annotations belong to the pod's author"
	case strings.Contains(k.Path, ".env["):
		return "variables of the app's containers belong to the pod's author"
	}
	return "mounts of the app's containers belong to the pod's author"
}

func effectText(e injector.Effect) string {
	text := e.Path
	was, now := scalar(e.Was), scalar(e.Now)
	switch {
	case e.Effect == merge.Same, e.Effect == merge.Removed, e.Effect == merge.Derived:
		text += was
	case was != "" && now != "":
		text += was + " →" + strings.TrimPrefix(now, ":")
	default:
		text += now
	}
	if image, ok := imageOf(e.Now); ok && e.Effect == merge.Added {
		text += ": image " + image
	}
	return text + " (" + strings.Join(e.Templates, ", ") + ")"
}

// scalar formats a scalar for the end of a path. It returns "" for an object or a list.
func scalar(v any) string {
	switch v.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return ": " + Value(v)
}

func imageOf(v any) (string, bool) {
	object, _ := v.(map[string]any)
	image, ok := object["image"].(string)
	return image, ok
}

func (p Pod) running(l *layout) {
	r := p.Running
	if r == nil {
		return
	}
	l.heading("Its pods now")
	if f := r.Failure; f != nil {
		l.text(2, fmt.Sprintf("%s: a pod could not be created, last at %s (times: %d): %s", f.About, f.At.UTC().Format(time.RFC3339), f.Count, f.Message), red)
	}
	if r.Unread != nil {
		r.Unread.text(l, 2, "")
		return
	}
	l.text(2, fmt.Sprintf("%d of %d pods up to date", r.Current, r.Pods), plain)
	var rows []row
	for _, pod := range r.OutdatedPods {
		rows = append(rows, row{label: pod.Name, text: pod.Text, colour: yellow})
	}
	l.rows(2, rows)
	if r.Remedy != "" {
		l.command(2, "new pods: ", r.Remedy)
	}
}

func (p Pod) dryRun(l *layout) {
	d := p.DryRun
	if d == nil {
		return
	}
	l.heading("The API server's answer to a dry run")
	if d.Allowed {
		l.text(2, d.Text, green)
	} else {
		l.text(2, d.Text, red)
	}
	for _, w := range d.Warnings {
		l.text(2, "warning: "+w, yellow)
	}
}

// writeNotes writes the warnings, the message and the notes.
func (p Pod) writeNotes(l *layout) {
	for _, k := range p.Keys {
		l.text(0, "warning: "+k, yellow)
	}
	for _, w := range p.Warnings {
		// The section of kept values has these warnings, with both values.
		if !slices.ContainsFunc(p.KeptValues, func(k injector.PodValue) bool {
			return strings.HasPrefix(w, fmt.Sprintf("template %s: %s: ", k.Template, k.Path))
		}) {
			l.text(0, "warning: "+w, yellow)
		}
	}
	if p.Message != "" && p.DryRun == nil {
		l.text(0, "refused: "+p.Message, red)
	}
	for _, note := range p.Notes {
		note.text(l, 0, "note: ")
	}
}
