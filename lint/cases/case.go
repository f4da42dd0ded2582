package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// The files of a case.
const (
	podFile       = "pod.yaml"
	namespaceFile = "namespace.yaml"
	valuesFile    = "values.yaml"
	wantFile      = "want.yaml"
	errorFile     = "want-error.txt"
	warningsFile  = "want-warnings.txt"
)

var files = []string{podFile, namespaceFile, valuesFile, wantFile, errorFile, warningsFile}

// folderCase is one case. Everything is read and written through root.
type folderCase struct {
	root   *os.Root
	result *Result
	// unread: a file of the case cannot be read, which is a problem.
	unread bool
}

func (c *folderCase) problem(format string, args ...any) {
	c.result.Problems = append(c.result.Problems, fmt.Sprintf(format, args...))
}

// unreadable reports a file that cannot be read.
func (c *folderCase) unreadable(format string, args ...any) {
	c.problem(format, args...)
	c.unread = true
}

// run runs one case and fills in its result.
func (s *suite) run(t loaded, c *folderCase) {
	c.checkFiles()
	request, ok := s.request(t, c)
	if !ok {
		return
	}
	out, err := s.inject(request)
	if err != nil {
		c.problem("Pillion fails: %v", err)
		return
	}
	got := result{code: string(out.Code), warnings: out.Warnings}
	if out.Allowed {
		c.result.Injected = slices.ContainsFunc(out.Templates, func(o injector.TemplateOutcome) bool {
			return o.Name == t.version.Name() && o.Code == reason.Injected
		})
		got.pod = withoutStatus(out.Pod)
		s.again(c, request, out)
	} else {
		got.message, got.whys = out.Message, whys(out)
	}
	c.compare(got, s.options.Update)
}

// checkFiles reports files that no case reads. Their names are typing mistakes.
func (c *folderCase) checkFiles() {
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		c.problem("the folder cannot be read: %v", err)
		return
	}
	for _, e := range entries {
		if !slices.Contains(files, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			c.problem("%s is not a file of a case, which are %s", e.Name(), strings.Join(files, ", "))
		}
	}
}

// request reads the files of the case into a request. Ok is false if that cannot be; the result then
// has the problems.
func (s *suite) request(t loaded, c *folderCase) (r injector.Request, ok bool) {
	pod, namespace, values := c.object(podFile, "Pod"), c.object(namespaceFile, "Namespace"), c.object(valuesFile, "")
	if pod == nil && !c.unread {
		c.unreadable("%s is missing; it has the pod that is created", podFile)
	}
	if c.unread {
		return r, false
	}
	asks := v1alpha1.InjectKey
	ns := templates.Namespace{
		Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"},
		Annotations: map[string]string{asks: t.version.Name()},
	}
	if namespace != nil {
		ns = injector.NamespaceOf(namespace)
	}
	own := t.version
	if values != nil {
		options := s.options.Compile
		options.Values = values
		compiled, err := compile(t.Template, options)
		if err != nil {
			c.problem("with the values of %s the template does not compile: %v", valuesFile, err)
			return r, false
		}
		own = s.version(compiled)
	}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	asked, _ := annotations[asks].(string)
	return injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: s.set(own, ns.Annotations[asks], asked)}, true
}

// again injects the resulting pod, and reports a problem if that changes the pod.
func (s *suite) again(c *folderCase, request injector.Request, first injector.Outcome) {
	request.Pod = first.Pod
	second, err := s.inject(request)
	switch {
	case err != nil:
		c.problem("Pillion fails when the resulting pod is injected again: %v", err)
	case !second.Allowed:
		c.problem("the resulting pod is refused when it is injected again: %s", second.Message)
	case len(second.Operations) > 0:
		c.problem("the resulting pod is changed when it is injected again (-first +second):\n%s", diff(first.Pod, second.Pod, "first", "second"))
	}
}

// object reads a YAML file with one object, nil if there is no such file. If a kind
// is given, the object must be of that kind.
func (c *folderCase) object(name, kind string) map[string]any {
	text := c.read(name)
	if text == nil {
		return nil
	}
	documents, err := workload.Parse(text)
	if err == nil && len(documents) > 1 {
		err = fmt.Errorf("must have one object; got %d documents", len(documents))
	}
	if err != nil {
		c.unreadable("%s cannot be read: %v", name, err)
		return nil
	}
	object := documents[0].Object
	switch got, _ := object["kind"].(string); {
	case kind != "" && got != kind:
		err = fmt.Errorf("must have an object of kind %s; got %q", kind, got)
	case kind == "Pod":
		_, err = workload.Decode[corev1.Pod](object)
	case kind == "Namespace":
		_, err = workload.Decode[corev1.Namespace](object)
	}
	if err != nil {
		c.unreadable("%s: %v", name, err)
	}
	return object
}

// read returns a file's text, nil if there is no such file.
func (c *folderCase) read(name string) []byte {
	text, err := c.root.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.unreadable("%s cannot be read: %v", name, err)
		return nil
	case text == nil:
		return []byte{}
	}
	return text
}

// whys returns why a pod is refused, a sentence for each refusal.
func whys(out injector.Outcome) []string {
	var all []string
	for _, r := range out.Refusals {
		all = append(all, r.Why)
	}
	return all
}

// withoutStatus returns the pod without the status annotation and the labels beside it, and
// without sections of the metadata in which nothing else is. The pod is not modified.
func withoutStatus(pod map[string]any) map[string]any {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, ok := annotations[v1alpha1.StatusKey]; !ok {
		return pod
	}
	unlabelled := record.WithoutLabels(pod)
	metadata, _ = unlabelled["metadata"].(map[string]any)
	pod, metadata, annotations = maps.Clone(pod), maps.Clone(metadata), maps.Clone(annotations)
	delete(annotations, v1alpha1.StatusKey)
	pod["metadata"], metadata["annotations"] = metadata, annotations
	for _, section := range []string{"annotations", "labels"} {
		if rest, ok := metadata[section].(map[string]any); ok && len(rest) == 0 {
			delete(metadata, section)
		}
	}
	if len(metadata) == 0 {
		delete(pod, "metadata")
	}
	return pod
}

// diff returns how two objects differ as YAML with sorted keys.
func diff(a, b map[string]any, from, to string) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(asYAML(a)), B: difflib.SplitLines(asYAML(b)), FromFile: from, ToFile: to, Context: 3,
	})
	if err != nil {
		return err.Error()
	}
	return text
}

func asYAML(object map[string]any) string {
	text, err := workload.YAML(object)
	if err != nil {
		return fmt.Sprintf("%v (%v)\n", object, err)
	}
	return text
}
