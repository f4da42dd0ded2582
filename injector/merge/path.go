package merge

import (
	"strconv"
	"strings"
)

// A keyed path names an item of a pod by what it is, not by where it stands:
// /spec/containers/name=web/env/name=FOO. List items are named by their merge
// key, items of sets by "=" and their canonical JSON. Segments are escaped as
// in RFC 6901; commas inside a value of a key with several fields are ~2.

var (
	segmentEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	segmentUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
	commaEscaper     = strings.NewReplacer("~", "~0", ",", "~2")
)

func join(path, segment string) string {
	return path + "/" + segmentEscaper.Replace(segment)
}

// parent returns the path of what surrounds what is at path.
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// place is where the merge stands, and which rules hold there.
type place struct {
	keyed   string   // the keyed path
	pointer []string // the JSON pointer's segments in the pod as it is now

	owner      string // the template whose listed item surrounds this place, if any
	onConflict string // what a conflict does here
	explicit   bool   // onConflict comes from a $onConflict, here or above
	// amongTemplates is what a conflict with another template does, if that is
	// something else.
	amongTemplates string
	stays          bool // inside a container that is the pod's own
	author         bool // inside an author's container that may override a sidecar
}

func (p place) field(name string) place {
	p.keyed = join(p.keyed, name)
	p.pointer = append(p.pointer[:len(p.pointer):len(p.pointer)], name)
	return p
}

func (p place) item(key string, index int) place {
	p.keyed = join(p.keyed, key)
	p.pointer = append(p.pointer[:len(p.pointer):len(p.pointer)], strconv.Itoa(index))
	return p
}

// with returns p under the $onConflict of the fragment's object, if it has one.
func (p place) with(frag map[string]any) place {
	if policy, ok := frag[onConflictKey].(string); ok {
		p.onConflict, p.explicit = policy, true
	}
	return p
}

// against returns what a conflict does, with another template if there is one.
func (p place) against(other string) string {
	if other != "" && p.amongTemplates != "" {
		return p.amongTemplates
	}
	return p.onConflict
}

// readable turns a keyed path into what people write:
// spec.containers[name=web].env[name=FOO], metadata.labels["a.b/c"].
func readable(keyed string) string {
	var b strings.Builder
	for i, segment := range strings.Split(keyed, "/")[1:] {
		segment = segmentUnescaper.Replace(segment)
		name, _, isItem := strings.Cut(segment, "=")
		switch {
		case isItem && plain(name):
			b.WriteString("[" + truncate(segment) + "]")
		case i == 0:
			b.WriteString(segment)
		case plain(segment) && segment != "":
			b.WriteString("." + segment)
		default:
			b.WriteString("[" + strconv.Quote(truncate(segment)) + "]")
		}
	}
	return b.String()
}

func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
