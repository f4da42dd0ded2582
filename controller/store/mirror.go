package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Served is a template of the library or of a file that is in force, and of which the
// cluster is to have a mirror.
type Served struct {
	Name string
	// From is [FromLibrary] or [FromValues], and Source names the place as messages do.
	From, Source string
	// Manifest is its newest text. Nil if it is gone or cannot be read: the mirror stays as it
	// is then.
	Manifest []byte
	// Hash, Reason and Message are what the mirror's status says.
	Hash, Reason, Message string
	// Share is as in [Verdict].
	Share *int32
}

// Mirrors are what there is to mirror, and what the cluster has.
type Mirrors struct {
	Served []Served
	// Objects are the mirrors of the cluster, by name in order. Nil while they are not known.
	Objects []MirrorObject
	// Taken has the names of [Mirrors.Served] that real templates of the cluster have.
	Taken map[string]bool
}

// OnMirrors calls f with what there is to mirror whenever that, or any object of the cluster,
// changed. What [Templates.OnChange] says of f holds.
func (t *Templates) OnMirrors(f func(Mirrors)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mirrored = append(t.mirrored, f)
}

// sayMirrors tells the listeners.
func (t *Templates) sayMirrors() {
	if len(t.mirrored) == 0 {
		return
	}
	m := Mirrors{Served: t.served, Objects: t.mirrors, Taken: map[string]bool{}}
	names := make(map[string]bool, len(t.served))
	for _, s := range t.served {
		names[s.Name] = true
	}
	for _, units := range t.units {
		for _, u := range units {
			if u.Object != nil && names[u.Object.Name] {
				m.Taken[u.Object.Name] = true
			}
		}
	}
	for _, f := range t.mirrored {
		f(m)
	}
}

// served adds to what sources have the templates that stay in force without one: they are in
// the set in force, and not in the one that was assembled. before is what was served until now.
func served(now, before []Served, assembled, after *templates.Set) []Served {
	if after == assembled {
		return now
	}
	for _, s := range before {
		e, in := after.Get(s.Name)
		if _, has := assembled.Get(s.Name); in && !has {
			now = append(now, Served{Name: s.Name, From: s.From, Source: s.Source, Hash: hash(e.Template), Reason: SourceGone, Message: errorText(e.Err)})
		}
	}
	return now
}

// describe says where a template comes from and how to change it.
func (s Served) describe() string {
	if s.From == FromLibrary {
		return fmt.Sprintf("Pillion's library, because the Helm value library names %s; the value values.defaults.%s changes defaults of its parameters", s.Name, s.Name)
	}
	file := path.Base(s.Source)
	return fmt.Sprintf("the file %s, which the chart makes of the Helm value templates.%s", s.Source, strings.TrimSuffix(file, path.Ext(file)))
}

// content is what Pillion writes of a mirror, but for the UID of its owner and its status.
type content struct {
	Source string
	Spec   map[string]any
	Owners []string
}

// digest is the same for a content and for the object that the API server keeps of it.
func (c content) digest() string {
	data, err := json.Marshal(c)
	if err != nil {
		return "" // of JSON that was decoded it does not fail
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// mirrorOf reads a mirror.
func mirrorOf(u *unstructured.Unstructured, prefix string) *MirrorObject {
	c := content{Source: u.GetAnnotations()[templates.MirrorSourceKey(prefix)]}
	c.Spec, _ = u.Object["spec"].(map[string]any)
	for _, o := range u.GetOwnerReferences() {
		c.Owners = append(c.Owners, o.Kind+"/"+o.Name)
	}
	return &MirrorObject{Object: *objectOf(u), Digest: c.digest(), Going: u.GetDeletionTimestamp() != nil}
}

// contentOf returns what the mirror of a template is to hold. Where the spec cannot be shown,
// because it is none or the API server refuses it, there is a stand-in that injects nothing;
// the status says what is wrong.
func contentOf(s Served, values map[string]any, owner string, refused bool) content {
	c := content{Source: s.describe(), Owners: []string{ownerKind + "/" + owner}}
	spec, err := templates.Shown(s.Manifest, values)
	if err != nil || refused {
		description, _ := spec["description"].(string)
		if runes := []rune(description); len(runes) > maxDescription {
			description = string(runes[:maxDescription])
		}
		spec = map[string]any{"description": description, "injectByDefault": false, "order": int64(0), "inject": map[string]any{}}
	}
	c.Spec = spec
	return c
}

const (
	// ownerKind and ownerVersion are those of the policy that owns the mirrors: with it the
	// garbage collector takes them away.
	ownerKind, ownerVersion = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
	// maxDescription is how long the CRD lets a description be.
	maxDescription = 1024
)

// object returns the mirror as it is written.
func (c content) object(name, prefix, owner string, uid types.UID) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": prefix + "/" + v1alpha1.Version, "kind": v1alpha1.Kind,
		"metadata": map[string]any{
			"name":            name,
			"labels":          map[string]any{templates.MirrorLabel(prefix): templates.Mirrored},
			"annotations":     map[string]any{templates.MirrorSourceKey(prefix): c.Source},
			"ownerReferences": []any{map[string]any{"apiVersion": ownerVersion, "kind": ownerKind, "name": owner, "uid": string(uid)}},
		},
		"spec": c.Spec,
	}}
}
