// Package docs holds the pages of the documentation to the rules of their language.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	mostWords      = 30  // of a sentence; a span of code is one word
	mostCharacters = 200 // of a line outside of tables and code
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

// texts returns the paragraphs, list items, headings and table cells of a page, without code.
func texts(page string) []string {
	var all []string
	joins := false // whether the next line goes on with the last text
	for line := range strings.Lines(code.ReplaceAllString(page, "$1")) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		switch {
		case text == "", strings.HasPrefix(line, "    ") && !joins:
			joins = false
		case strings.HasPrefix(text, "|"):
			all = append(all, strings.Split(strings.ReplaceAll(text, `\|`, "/"), "|")...)
			joins = false
		case joins && !item.MatchString(line) && !strings.HasPrefix(text, "#"):
			all[len(all)-1] += " " + text
		default:
			all = append(all, text)
			joins = !strings.HasPrefix(text, "#")
		}
	}
	return all
}

// findings returns what breaks the rules on a page.
func findings(page string) []string {
	var found []string
	for line := range strings.Lines(code.ReplaceAllString(page, "$1")) {
		indented := strings.HasPrefix(line, "    ")
		if text := strings.TrimSpace(line); len([]rune(text)) > mostCharacters && !indented && !strings.HasPrefix(text, "|") {
			found = append(found, "a line has more than 200 characters, make each sentence a line: "+text)
		}
	}
	page = code.ReplaceAllString(page, "$1")
	page = link.ReplaceAllString(span.ReplaceAllString(page, "CODE"), "$1")
	for _, text := range texts(page) {
		for _, sentence := range sentenceEnd.Split(text, -1) {
			if len(word.FindAllString(sentence, -1)) > mostWords {
				found = append(found, "a sentence has more than 30 words, make it two: "+sentence)
			}
		}
		if phrase := phrases.FindString(text); phrase != "" {
			found = append(found, "say it otherwise than by \""+phrase+"\": "+text)
		}
	}
	return found
}

// Every page has short sentences and lines, and none of the phrases that readers stumble over.
func TestThePagesAreWrittenInPlainEnglish(t *testing.T) {
	pages := []string{"../README.md"}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings(string(page)) {
			t.Errorf("%s: %s", path, f)
		}
	}
}

func TestTheCheckFindsWhatBreaksTheRules(t *testing.T) {
	long := strings.Repeat("so ", mostWords)
	for name, c := range map[string]struct {
		page string
		want int
	}{
		"short sentences":                 {"# Pods\n\n" + long + "\n\n" + long + "\n", 0},
		"a sentence over two lines":       {long + "\nand one more.\n", 1},
		"a sentence in a list":            {"- " + long + "\n- " + long + "more.\n", 1},
		"a sentence in a cell":            {"| a | b |\n| --- | --- |\n| " + long + "| " + long + "more |\n", 1},
		"code counts as one word":         {"`" + long + "` " + strings.Repeat("so ", mostWords-1) + "\n", 0},
		"blocks of code do not count":     {"```\n" + long + long + "of which\n```\n\n    " + long + long + "\n", 0},
		"a link counts by its text":       {strings.Repeat("so ", mostWords-1) + "[page](of-which.md)\n", 0},
		"a long line of short sentences":  {strings.Repeat("Six words are in this sentence. ", 7) + "\n", 1},
		"a phrase, however it is written": {"Whoever asks.\nThere is a pod that waits.\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := findings(c.page); len(got) != c.want {
				t.Errorf("found %q, want %d", got, c.want)
			}
		})
	}
}
