package cases

import (
	"reflect"
	"slices"
	"strings"
)

// result is the pod or the refusal that a case gives.
type result struct {
	// pod is the resulting pod without the status annotation, nil for a refused pod.
	pod map[string]any
	// code and message are the refusal's. Whys are the sentences that --update
	// writes: the message without the hint for the person who created the pod.
	code, message string
	whys          []string
	warnings      []string
}

// compare reports in which way the result is not the wanted one, or writes it to the
// case's files.
func (c *folderCase) compare(got result, update bool) {
	c.compareWarnings(got, update)
	wantPod, wantError := c.object(wantFile, ""), c.read(errorFile)
	if c.unread {
		return
	}
	var problem string
	switch refused := got.pod == nil; {
	case wantPod == nil && wantError == nil:
		problem = "neither " + wantFile + " nor " + errorFile + " is there: --update writes the one that fits"
	case wantPod != nil && wantError != nil:
		problem = wantFile + " and " + errorFile + " are both there; a pod is injected or refused"
	case refused && wantPod != nil:
		problem = "the pod is refused, and " + wantFile + " expects it to be injected: " + got.code + ": " + got.message
	case !refused && wantError != nil:
		problem = "the pod is admitted, and " + errorFile + " expects it to be refused"
	case refused:
		problem = refusalProblem(lines(wantError), got)
	case !reflect.DeepEqual(wantPod, got.pod):
		problem = "the pod is not the one of " + wantFile + " (-want +got):\n" + diff(wantPod, got.pod, wantFile, "got")
	}
	switch {
	case problem == "":
	case !update:
		c.problem("%s", problem)
	case got.pod != nil:
		c.write(wantFile, asYAML(got.pod))
		c.remove(errorFile)
	default:
		c.write(errorFile, strings.Join(append([]string{got.code}, got.whys...), "\n")+"\n")
		c.remove(wantFile)
	}
}

// refusalProblem returns in which way a refusal is not the wanted one, or "".
func refusalProblem(want []string, got result) string {
	if len(want) == 0 || want[0] != got.code {
		first := "nothing"
		if len(want) > 0 {
			first = want[0]
		}
		return "the pod is refused with " + got.code + ", and the first line of " + errorFile + " expects " + first + ": " + got.message
	}
	for _, text := range want[1:] {
		if !strings.Contains(got.message, text) {
			return "the refusal's message lacks a line of " + errorFile + ":\n- " + text + "\n+ " + got.message
		}
	}
	return ""
}

func (c *folderCase) compareWarnings(got result, update bool) {
	want := lines(c.read(warningsFile))
	if c.unread {
		return
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
		return slices.ContainsFunc(got.warnings, func(g string) bool { return strings.Contains(g, w) })
	})
	extra := slices.DeleteFunc(slices.Clone(got.warnings), func(g string) bool {
		return slices.ContainsFunc(want, func(w string) bool { return strings.Contains(g, w) })
	})
	switch {
	case len(missing) == 0 && len(extra) == 0:
	case !update:
		c.problem("the warnings are not those of %s (-want +got):\n%s%s", warningsFile, marked("- ", missing), marked("+ ", extra))
	case len(got.warnings) == 0:
		c.remove(warningsFile)
	default:
		c.write(warningsFile, strings.Join(got.warnings, "\n")+"\n")
	}
}

// lines returns the lines that are not empty, trimmed.
func lines(text []byte) []string {
	var list []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

func marked(mark string, list []string) string {
	var b strings.Builder
	for _, line := range list {
		b.WriteString(mark + line + "\n")
	}
	return b.String()
}

func (c *folderCase) write(name, text string) {
	if err := c.root.WriteFile(name, []byte(text), 0o644); err != nil {
		c.problem("%s cannot be written: %v", name, err)
		return
	}
	c.result.Updated = append(c.result.Updated, name)
}

// remove removes a file, if it is there.
func (c *folderCase) remove(name string) {
	if c.read(name) == nil {
		return
	}
	if err := c.root.Remove(name); err != nil {
		c.problem("%s cannot be removed: %v", name, err)
		return
	}
	c.result.Updated = append(c.result.Updated, name)
}
