package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var updateTranscripts = flag.Bool("update-transcripts", false, "write the transcripts of docs/prediction.md anew")

// transcript is a code block that begins with a command of ours.
var transcript = regexp.MustCompile("(?m)^```text\n\\$ (pillion [^\n]*)\n((?:[^`][^\n]*\n)*)```$")

// The documentation shows what the command line prints.
func TestTheTranscriptsOfPredictionsAreTrue(t *testing.T) {
	const page = "../../docs/prediction.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	t.Chdir("testdata/prediction")
	now := transcript.ReplaceAllStringFunc(string(text), func(block string) string {
		found++
		command := transcript.FindStringSubmatch(block)[1]
		var out bytes.Buffer
		run(context.Background(), strings.Fields(command), strings.NewReader(""), &out, &out)
		return "```text\n$ " + command + "\n" + out.String() + "```"
	})
	if found < 4 {
		t.Errorf("%d transcripts", found)
	}
	if *updateTranscripts {
		if err := os.WriteFile("../../"+page, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if now != string(text) {
		t.Errorf("docs/prediction.md shows something else; -update-transcripts writes it:\n%s", now)
	}
}
