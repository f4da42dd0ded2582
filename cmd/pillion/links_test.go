package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
	pageHeading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInID     = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// headingIDs are the anchors of a page, as GitHub makes them of its headings.
func headingIDs(page string) map[string]bool {
	ids := map[string]bool{}
	for _, h := range pageHeading.FindAllStringSubmatch(page, -1) {
		text := linkText.ReplaceAllString(h[1], "$1")
		ids[strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")] = true
	}
	return ids
}

// Every link between pages leads to a page and a heading that are there.
func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v", err)
		}
		return codeBlock.ReplaceAllString(string(text), "")
	}
	anchors := 0
	for _, file := range append(pagePaths(t), "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		for _, link := range linkTarget.FindAllStringSubmatch(read(file), -1) {
			page, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(page, ":") { // elsewhere
				continue
			}
			target := file
			if page != "" {
				target = filepath.Join(filepath.Dir(file), page)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			} else if anchor != "" && filepath.Ext(target) == ".md" {
				anchors++
				if !headingIDs(read(target))[anchor] {
					t.Errorf("%s links to %s, and that page has no such heading", file, link[1])
				}
			}
		}
	}
	if anchors < 20 {
		t.Errorf("only %d links to headings were looked at", anchors)
	}
}
