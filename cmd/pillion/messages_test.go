package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// verb is what a format has in the place of a value.
	verb  = regexp.MustCompile(`%(\[\d+\])?[.\d]*[a-zA-Z]`)
	spans = regexp.MustCompile("`` (.+?) ``|`([^`]+)`")

	joinedLiterals = regexp.MustCompile(`"\s*\+\s*"|'\s*\+\s*'`)
	messageStart   = regexp.MustCompile("(?m)^(?:\\||-) (`[^|\n]*)")
)

// Each message that the pages of messages and of the log explain is one of this version: the parts between its … are
// texts of the source, or of the chart. What kube-apiserver says is not looked for.
func TestThePagesOfMessagesHaveTheTextsOfTheSource(t *testing.T) {
	var source strings.Builder
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "e2e" || d.Name() == ".cache" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && !strings.Contains(path, "charts/pillion/templates"):
			return nil
		}
		text, err := os.ReadFile(path)
		source.WriteString(joinedLiterals.ReplaceAllString(strings.ReplaceAll(string(text), `\"`, `"`), ""))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(strings.Fields(verb.ReplaceAllString(source.String(), "…")), " ")
	messages, err := os.ReadFile("../../docs/troubleshoot/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../../docs/troubleshoot/log.md")
	if err != nil {
		t.Fatal(err)
	}
	own, _, _ := strings.Cut(string(messages), "\n## API servers\n")
	looked := 0
	for _, start := range messageStart.FindAllStringSubmatch(own+string(log), -1) {
		for _, span := range spans.FindAllStringSubmatch(start[1], -1) {
			for part := range strings.SplitSeq(span[1]+span[2], "…") {
				if part = strings.Trim(part, " :;,.()"); len(part) < 8 {
					continue
				}
				looked++
				if !strings.Contains(all, part) {
					t.Errorf("docs/troubleshoot explains %q, and nothing says that", part)
				}
			}
		}
	}
	if looked < 50 {
		t.Errorf("only %d texts were looked for", looked)
	}
}
