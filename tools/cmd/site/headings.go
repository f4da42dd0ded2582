package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

var notInID = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

// headingIDs makes the anchors of a page's headings as GitHub makes them, so that a link works on both.
type headingIDs struct{ seen map[string]int }

// Generate returns the anchor of a heading: lower case, without punctuation, with - for each space. The
// second heading of a text has -1 at its end.
func (h *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(value))), ""), " ", "-")
	n := h.seen[id]
	h.seen[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put is called for anchors that a page sets itself; none does.
func (h *headingIDs) Put([]byte) {}

// partsOf returns the text of a page, heading by heading, and corrects the anchor of a heading that has
// a link: it is made of the text alone.
func partsOf(tree ast.Node, source []byte) []part {
	var parts []part
	ids := &headingIDs{seen: map[string]int{}}
	var now strings.Builder
	end := func() {
		if len(parts) > 0 {
			parts[len(parts)-1].Text = strings.Join(strings.Fields(now.String()), " ")
		}
		now.Reset()
	}
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				now.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			end()
			title := textOf(n, source)
			id := ids.Generate([]byte(title), ast.KindHeading)
			n.SetAttributeString("id", id)
			parts = append(parts, part{level: n.Level, ID: string(id), Title: title})
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			now.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				now.WriteByte(' ')
			}
		case *ast.String:
			now.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			now.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	end()
	return parts
}

// textOf returns the text of a node without its links and styles.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
