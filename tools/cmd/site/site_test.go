package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pages make a site, and each of their links leads to a file, and to a heading if it names one.
func TestEachLinkOfTheDocsLeadsSomewhere(t *testing.T) {
	out := t.TempDir()
	if _, err := build("../../..", out); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(out, searchFile))
	if err != nil {
		t.Fatal(err)
	}
	// People search for a message by its text.
	for _, text := range []string{`"docs/how-to/private-registry.html`, "BadParameter", "docs/reference/metrics.html#pillion_reviewed_pods_total"} {
		if !strings.Contains(string(index), text) {
			t.Errorf("the index of the search lacks %s", text)
		}
	}
	for _, page := range []string{"index.html", "docs/index.html", "docs/reference/commands.html"} {
		text, err := os.ReadFile(filepath.Join(out, page))
		if err != nil {
			t.Fatal(err)
		}
		if outside := strings.Count(string(text), `src="http`); outside > 0 {
			t.Errorf("%s loads %d files from elsewhere", page, outside)
		}
	}
}

func TestTheSiteIsNotMadeWithADeadLink(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"a page and a heading":         {"[b](docs/b.md#two-words-and-code)", ""},
		"the second heading of a text": {"[b](docs/b.md#again-1)", ""},
		"a heading of the same page":   {"[a](#a)", ""},
		"a folder":                     {"[docs](docs)", ""},
		"a file of the sources":        {"[code](main.go)", ""},
		"another site":                 {"[k8s](https://kubernetes.io/docs/#nothing)", ""},
		"a reference":                  {"[b][1]\n\n[1]: docs/b.md#nothing", "#nothing"},
		"no such page":                 {"[c](docs/c.md)", "docs/c.md"},
		"no such heading":              {"[b](docs/b.md#nothing)", "anchor nothing"},
		"a heading in code":            {"[b](docs/b.md#in-code)", "anchor in-code"},
		"no such picture":              {"![c](docs/images/c.svg)", "docs/images/c.svg"},
		"outside of the repository":    {"[c](../etc/passwd)", "../etc/passwd"},
		"a link of HTML":               {`<a href="docs/c.html">c</a>`, "docs/c.html"},
	} {
		t.Run(name, func(t *testing.T) {
			root, out := t.TempDir(), t.TempDir()
			for file, text := range map[string]string{
				"README.md": "# A\n\n" + c.page + "\n", "docs/README.md": "# Docs\n", "main.go": "package main\n",
				"docs/b.md": "# B\n\n## Two [words](b.md), and `code`!\n\n## Again\n\n## Again\n\n```\n## In code\n```\n",
			} {
				if err := write(root, file, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := build(root, out)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "README.md") && !strings.Contains(err.Error(), "index.html")) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}
