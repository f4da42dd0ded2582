package manifest

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pillion-dev/pillion/templates/show"
)

// Source has the lines of a manifest's values in its file.
type Source struct {
	// first is the file's line at which the manifest begins.
	first int
	// root is the manifest's node, or nil if the lines are unknown.
	root *yaml.Node
}

// NewSource parses a manifest for its lines. If that fails, the lines are unknown, and [Read] reports the
// error.
func NewSource(manifest []byte, first int) *Source {
	s := &Source{first: max(first, 1)}
	var doc yaml.Node
	if yaml.Unmarshal(manifest, &doc) == nil && doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		s.root = doc.Content[0]
	}
	return s
}

// Line returns the line in the file, from 1, of the value at p or of the nearest value around it. It is 0 if
// unknown.
func (s *Source) Line(p *Path) int {
	n, line := s.find(p)
	if n == nil {
		return 0
	}
	return s.inFile(line)
}

// TextLine returns the line of the byte at offset in the text at p. In a block scalar each line has its own
// number.
func (s *Source) TextLine(p *Path, text string, offset int) int {
	n, line := s.find(p)
	if n == nil {
		return 0
	}
	if n.Kind == yaml.ScalarNode && n.Style&yaml.LiteralStyle != 0 {
		line = n.Line + 1 + strings.Count(text[:min(offset, len(text))], "\n")
	}
	return s.inFile(line)
}

// inFile returns the file's line for a line of the manifest.
func (s *Source) inFile(line int) int { return line + max(s.first, 1) - 1 }

// find returns the node at p or the nearest one above it, and the line of its key, or of the node if it has no
// key.
func (s *Source) find(p *Path) (*yaml.Node, int) {
	n := s.root
	if n == nil {
		return nil, 0
	}
	line := n.Line
	for _, step := range p.steps() {
		next, at := child(n, step)
		if next == nil {
			return n, line
		}
		n, line = next, at
	}
	return n, line
}

func child(n *yaml.Node, step *Path) (*yaml.Node, int) {
	n = resolved(n)
	if step.isItem {
		if n.Kind != yaml.SequenceNode || step.index >= len(n.Content) {
			return nil, 0
		}
		return n.Content[step.index], n.Content[step.index].Line
	}
	if n.Kind != yaml.MappingNode {
		return nil, 0
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step.key {
			return n.Content[i+1], n.Content[i].Line
		}
	}
	return nil, 0
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

var yamlBoolean = regexp.MustCompile(`\A(?:[yY]|[nN]|[yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF|[tT]rue|TRUE|[fF]alse|FALSE)\z`)

// Keys reports keys that a map has twice, texts that YAML reads as a tag, and keys that YAML reads as a boolean, as
// kubectl does: a label n becomes a label false.
func (s *Source) Keys(misread func(at *Path, line int, message string), boolean func(at *Path, message string)) {
	var walk func(n *yaml.Node, at *Path)
	walk = func(n *yaml.Node, at *Path) {
		switch n.Kind {
		case yaml.SequenceNode:
			for i, item := range n.Content {
				walk(item, at.Item(i))
			}
		case yaml.MappingNode:
			seen := map[string]int{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				key, here := n.Content[i], at.Field(n.Content[i].Value)
				isScalar, line := key.Kind == yaml.ScalarNode, s.inFile(key.Line)
				if before, ok := seen[key.Value]; ok && isScalar && key.Tag != "!!merge" {
					misread(here, line, fmt.Sprintf("the key %s is there twice, first on line %d", show.Value(key.Value), before))
				} else {
					seen[key.Value] = line
				}
				if isScalar && key.Style == 0 && yamlBoolean.MatchString(key.Value) {
					boolean(here, fmt.Sprintf("YAML reads the key %s as a boolean; quote it", key.Value))
				}
				walk(n.Content[i+1], here)
			}
		case yaml.ScalarNode:
			if n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!") {
				misread(at, s.inFile(n.Line), fmt.Sprintf("YAML reads %s as a tag; quote the text", n.Tag))
			}
		}
	}
	if s.root != nil {
		walk(s.root, nil)
	}
}
