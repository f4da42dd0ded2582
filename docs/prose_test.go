// Package docs holds the pages of the documentation to the rules of their language.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	mostWords          = 25    // of a sentence; a span of code is one word
	mostCellWords      = 30    // of a cell of a table
	mostSentences      = 5     // of a paragraph, or of an item of a list
	mostCharacters     = 200   // of a line outside of tables and code
	mostPageWords      = 900   // of a page: it has one job
	mostReadmeWords    = 700   // of the README
	mostWordsOfAll     = 25000 // of all pages outside of docs/reference
	mostGeneratedWords = 12000 // of all pages that are made of the code
)

// phrases are words of ours, and forms that a reader has to read twice.
var phrases = regexp.MustCompile(`(?i)\b(of which|whoever|who asks|what is there|means? nothing|stand-ins?|ground|standing|kept|there (is|are) [^.,;:]* that)\b`)

var (
	code        = regexp.MustCompile("(?s)(^|\n) *```.*?\n *```|<!--.*?-->")
	span        = regexp.MustCompile("``.+?``|`[^`]+`")
	link        = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	item        = regexp.MustCompile(`^ *([-*]|\d+\.) `)
	sentenceEnd = regexp.MustCompile(`[.!?][*_")]* +`)
	word        = regexp.MustCompile(`\S*[\pL\pN]\S*`)
)

// texts returns the paragraphs, list items and headings of a page, and the cells of its tables, without code.
func texts(page string) (all, cells []string) {
	joins := false // whether the next line goes on with the last text
	for line := range strings.Lines(code.ReplaceAllString(page, "$1")) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		switch {
		case text == "", strings.HasPrefix(line, "    ") && !joins:
			joins = false
		case strings.HasPrefix(text, "|"):
			cells = append(cells, strings.Split(strings.ReplaceAll(text, `\|`, "/"), "|")...)
			joins = false
		case joins && !item.MatchString(line) && !strings.HasPrefix(text, "#"):
			all[len(all)-1] += " " + text
		default:
			all = append(all, text)
			joins = !strings.HasPrefix(text, "#")
		}
	}
	return all, cells
}

// findings returns what breaks the rules on a page.
func findings(page string) []string {
	var found []string
	page = code.ReplaceAllString(page, "$1")
	for line := range strings.Lines(page) {
		indented := strings.HasPrefix(line, "    ")
		if text := strings.TrimSpace(line); len([]rune(text)) > mostCharacters && !indented && !strings.HasPrefix(text, "|") {
			found = append(found, fmt.Sprintf("a line has more than %d characters, make each sentence a line: %s", mostCharacters, text))
		}
	}
	paragraphs, cells := texts(link.ReplaceAllString(span.ReplaceAllString(page, "CODE"), "$1"))
	for _, text := range paragraphs {
		if n := len(sentenceEnd.Split(text, -1)); n > mostSentences {
			found = append(found, fmt.Sprintf("a paragraph has %d sentences, make it several of at most %d: %s", n, mostSentences, text))
		}
	}
	for _, cell := range cells {
		if n := len(word.FindAllString(cell, -1)); n > mostCellWords {
			found = append(found, fmt.Sprintf("a cell has %d words, leave at most %d: %s", n, mostCellWords, cell))
		}
	}
	for _, text := range slices.Concat(paragraphs, cells) {
		for _, sentence := range sentenceEnd.Split(text, -1) {
			if n := len(word.FindAllString(sentence, -1)); n > mostWords {
				found = append(found, fmt.Sprintf("a sentence has %d words, make it several of at most %d: %s", n, mostWords, sentence))
			}
		}
		if phrase := phrases.FindString(text); phrase != "" {
			found = append(found, "say it otherwise than by \""+phrase+"\": "+text)
		}
	}
	return found
}

// Every page has short sentences, paragraphs, cells and lines, and none of the phrases that readers stumble over.
func TestThePagesAreWrittenInPlainEnglish(t *testing.T) {
	for path, page := range pagesOf(t) {
		for _, f := range findings(page) {
			t.Errorf("%s: %s", path, f)
		}
	}
}

// pagesOf returns the README and all pages, by their paths.
func pagesOf(t *testing.T) map[string]string {
	t.Helper()
	paths := []string{"../README.md"}
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	pages := map[string]string{}
	for _, path := range paths {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(page)
	}
	return pages
}

// A page is read in one go, and an admin reads a few of them before an installation.
func TestThePagesAreShort(t *testing.T) {
	outside, generated := 0, 0
	for path, page := range pagesOf(t) {
		n, most := len(word.FindAllString(page, -1)), mostPageWords
		if path == "../README.md" {
			most = mostReadmeWords
		}
		if n > most {
			t.Errorf("%s has %d words, leave at most %d, or make two pages", path, n, most)
		}
		if !strings.HasPrefix(path, "reference/") {
			outside += n
		}
		if strings.HasPrefix(page, "<!-- Generated") {
			generated += n
		}
	}
	if outside > mostWordsOfAll || generated > mostGeneratedWords {
		t.Errorf("the pages outside of reference have %d words, and the generated ones %d; leave at most %d and %d",
			outside, generated, mostWordsOfAll, mostGeneratedWords)
	}
}
