package templates

import (
	"fmt"
	"maps"
	"slices"

	names "k8s.io/apimachinery/pkg/util/validation"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// filesVolume is the end of the name of the volume with a template's files; the template's name comes before
// it.
const filesVolume = "-files"

// maxFiles bounds the files of a template.
const maxFiles = 64

// file is an entry of spec.files. Its text becomes an annotation of the pod, which the volume mounts.
type file struct {
	expression.Place
	name, key string
	text      node
}

// Files are the rendered files of a template.
type Files struct {
	// Volume is the volume as the template renders it.
	Volume map[string]any
	// Texts has the text of each file by the key of its annotation.
	Texts map[string]string
}

// Bytes is the size of the files' annotations, which counts towards the API's limit for a pod.
func (f *Files) Bytes() int {
	bytes := 0
	for key, text := range f.Texts {
		bytes += len(key) + len(text)
	}
	return bytes
}

// fileKeys is the beginning of the keys of a template's file annotations. Names of templates have no dots, so
// no parameter's key begins like this.
func (t *Template) fileKeys() string { return v1alpha1.OfTemplate(t.name + ".files") }

// files compiles spec.files.
func (c *compiler) files(t *Template, at *manifest.Path) {
	if len(t.spec.Files) == 0 {
		return
	}
	c.filesAllowed(t, at)
	if len(t.spec.Files) > maxFiles {
		c.problem(at, fmt.Sprintf("has %d files; at most %d are allowed", len(t.spec.Files), maxFiles))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.spec.Files)) {
		here := here{at: at.Field(name), typ: podschema.At("metadata.annotations").Elem(), env: c.env, pod: []string{"metadata", "annotations", name}}
		key := t.fileKeys() + name
		if problems := names.IsQualifiedName(key); t.name != "" && len(problems) > 0 {
			c.problem(here.at, fmt.Sprintf("must be at most 63 letters, digits, '-', '_' and '.', the first and the last a letter or a digit, because an annotation of that name holds the file; got %s", show.Value(name)))
			continue
		}
		text := c.text(t.spec.Files[name], here)
		if text == nil {
			continue
		}
		t.files = append(t.files, file{Place: c.place(here.at), name: name, key: key, text: text})
	}
}

func (c *compiler) filesAllowed(t *Template, at *manifest.Path) {
	if t.spec.Required {
		c.problem(at, "is not for required templates: the files come from annotations of the pod, which everybody who may update the pod can change later. Mount a ConfigMap that the namespace's users cannot write, or pass variables")
	}
	if volume := t.name + filesVolume; len(volume) > names.DNS1123LabelMaxLength {
		c.problem(at, fmt.Sprintf("needs a volume of the name %s, which has %d characters; at most %d are allowed: a template with files has a name of at most %d",
			volume, len(volume), names.DNS1123LabelMaxLength, names.DNS1123LabelMaxLength-len(filesVolume)))
	}
}

// addFiles adds the template's files to a fragment. It returns nil if the template has no files.
func (r *renderer) addFiles(out *fragment.Node, s *expression.Scope) (*Files, error) {
	t := r.template
	if len(t.files) == 0 {
		return nil, nil
	}
	files := &Files{Texts: make(map[string]string, len(t.files))}
	var items []any
	for _, f := range t.files {
		n, err := f.text.render(r, s)
		if err != nil {
			return nil, err
		}
		if n == nil { // null, or none
			continue
		}
		text, ok := n.Value.(string)
		if !ok {
			continue
		}
		if err := r.run.Spend(2*len(f.key)+len(f.name), f.At); err != nil {
			return nil, err
		}
		files.Texts[f.key] = text
		items = append(items, map[string]any{"path": f.name, "fieldRef": map[string]any{"fieldPath": "metadata.annotations['" + f.key + "']"}})
	}
	if len(items) == 0 {
		return nil, nil
	}
	name := t.name + filesVolume
	files.Volume = map[string]any{"name": name, "downwardAPI": map[string]any{"items": items}}
	annotations := out.Enter("metadata").Enter("annotations")
	for key, text := range files.Texts {
		annotations.Set(key, fragment.Scalar(nil, text))
	}
	volumes := out.Enter("spec").Enter("volumes")
	if volumes.Item("name="+name) != nil {
		return nil, &expression.Error{Place: t.files[0].Place, Message: fmt.Sprintf("the template has a volume %s of its own, which is the name of the volume with its files", name)}
	}
	volumes.Items = append(volumes.Items, fragment.Item{Key: "name=" + name, Node: fragment.Of(podschema.At("spec.volumes[]"), files.Volume)})
	return files, nil
}
