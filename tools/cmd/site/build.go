package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

const (
	sources    = "https://github.com/pillion-dev/pillion/blob/main/"
	searchFile = "index.js" // what search.js reads
)

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	style []byte
	//go:embed search.js
	search []byte

	pageTemplate = template.Must(template.New("page").Parse(pageText))
	markdown     = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))

	tableCell  = regexp.MustCompile(`(?s)<td.*?</td>`)
	codeText   = regexp.MustCompile(`<code>[^<]*`)
	lineBreaks = strings.NewReplacer(",", ",<wbr>", ".", ".<wbr>", "/", "/<wbr>", ":", ":<wbr>", "=", "=<wbr>")
)

// sections are the folders of docs in the order of the menu.
var sections = []struct{ folder, title string }{
	{"docs", "Start"}, {"docs/tutorials", "Tutorials"}, {"docs/how-to", "How-to guides"}, {"docs/troubleshoot", "Troubleshooting"},
	{"docs/reference", "Reference"}, {"docs/concepts", "Concepts"}, {"docs/contributing", "Contributing"},
}

// rootPages are the pages outside of docs.
var rootPages = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "charts/pillion/README.md"}

// A page is a Markdown file.
type page struct {
	file, target string // in the repository, and in the site
	title        string
	source       []byte
	tree         ast.Node
	parts        []part
}

// A part is a page's text below one heading.
type part struct {
	level           int
	ID, Title, Text string
}

// build writes the site of the repository at root to the folder out, and returns how many pages it
// has. It fails if a link leads nowhere, and names each such link.
func build(root, out string) (int, error) {
	var pages []*page
	targets := map[string]string{} // of each page's file
	files, err := pageFiles(root)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		p, err := parse(root, file)
		if err != nil {
			return 0, err
		}
		pages = append(pages, p)
		targets[file] = p.target
	}
	sortAsInMap(pages)
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	var problems []error
	for _, p := range pages {
		problems = append(problems, p.pointLinks(root, targets)...)
		var b bytes.Buffer
		if err := p.render(&b, menu(pages, p)); err != nil {
			return 0, fmt.Errorf("rendering %s: %w", p.file, err)
		}
		if err := write(out, p.target, b.Bytes()); err != nil {
			return 0, err
		}
	}
	index, err := searchIndex(pages)
	if err != nil {
		return 0, err
	}
	assets := map[string][]byte{"style.css": style, "search.js": search, searchFile: index}
	pictures, err := filepath.Glob(filepath.Join(root, "docs/images/*.svg"))
	if err != nil {
		return 0, err
	}
	for _, picture := range pictures {
		data, err := os.ReadFile(picture)
		if err != nil {
			return 0, err
		}
		assets["docs/images/"+filepath.Base(picture)] = data
	}
	for name, data := range assets {
		if err := write(out, name, data); err != nil {
			return 0, err
		}
	}
	dead, err := deadLinks(out)
	if err != nil {
		return 0, err
	}
	return len(pages), errors.Join(append(problems, dead...)...)
}

// pageFiles returns the Markdown files of the site.
func pageFiles(root string) ([]string, error) {
	var files []string
	for _, file := range rootPages {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			files = append(files, file)
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			relative, _ := filepath.Rel(root, name)
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	return files, err
}

func parse(root, file string) (*page, error) {
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	p := &page{file: file, source: source, target: strings.TrimSuffix(file, ".md") + ".html"}
	if path.Base(file) == "README.md" {
		p.target = path.Join(path.Dir(file), "index.html")
	}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&headingIDs{seen: map[string]int{}}))))
	p.parts = partsOf(p.tree, source)
	if len(p.parts) == 0 || p.parts[0].level != 1 {
		return nil, fmt.Errorf("%s does not begin with a heading of the first level", file)
	}
	p.title = p.parts[0].Title
	return p, nil
}

// pointLinks changes the links of a page to those of the site: a page is where its target is, a picture
// stays, and another file of the repository is at its address. It returns the links to files that do
// not exist.
func (p *page) pointLinks(root string, targets map[string]string) []error {
	var dead []error
	point := func(link []byte) []byte {
		name, anchor, _ := strings.Cut(string(link), "#")
		if name == "" || strings.Contains(name, ":") {
			return link
		}
		file := path.Join(path.Dir(p.file), name)
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil || strings.HasPrefix(file, "..") {
			dead = append(dead, fmt.Errorf("%s links to %s, and there is no file %s", p.file, link, file))
			return link
		}
		target, isPage := targets[file]
		if info.IsDir() {
			target, isPage = targets[path.Join(file, "README.md")]
		}
		switch {
		case isPage:
		case path.Dir(file) == "docs/images":
			target = file
		default:
			return []byte(sources + file)
		}
		link = []byte(relative(p.target, target))
		if anchor != "" {
			link = append(link, "#"+anchor...)
		}
		return link
	}
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination = point(n.Destination)
			case *ast.Image:
				n.Destination = point(n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	return dead
}

// sortAsInMap brings the pages into the order in which docs/README.md names them first, for the menu.
func sortAsInMap(pages []*page) {
	at := map[*page]int{}
	for _, m := range pages {
		if m.file != "docs/README.md" {
			continue
		}
		for _, p := range pages {
			at[p] = strings.Index(string(m.source), "("+strings.TrimPrefix(p.file, "docs/")+")")
		}
	}
	slices.SortStableFunc(pages, func(a, b *page) int { return cmp.Compare(at[a], at[b]) })
}

// A menuSection is a folder in the menu.
type menuSection struct {
	Title string
	Pages []menuPage
}

type menuPage struct {
	Title, Link string
	Here        bool
}

func menu(pages []*page, here *page) []menuSection {
	var all []menuSection
	for _, s := range sections {
		m := menuSection{Title: s.title}
		for _, p := range pages {
			if path.Dir(p.file) == s.folder || s.folder == "docs" && p.file == "README.md" || s.folder == "docs/contributing" && p.file == "CONTRIBUTING.md" {
				m.Pages = append(m.Pages, menuPage{p.title, relative(here.target, p.target), p == here})
			}
		}
		if len(m.Pages) > 0 {
			all = append(all, m)
		}
	}
	return all
}

func (p *page) render(b *bytes.Buffer, menu []menuSection) error {
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.tree); err != nil {
		return err
	}
	// A wide table scrolls by itself, not with the page. Code in it may break behind punctuation, so that few are.
	content := strings.NewReplacer("<table>", `<div class="wide"><table>`, "</table>", "</table></div>").Replace(body.String())
	content = tableCell.ReplaceAllStringFunc(content, func(cell string) string {
		return codeText.ReplaceAllStringFunc(cell, lineBreaks.Replace)
	})
	var contents []part
	for _, part := range p.parts {
		if part.level == 2 {
			contents = append(contents, part)
		}
	}
	return pageTemplate.Execute(b, map[string]any{
		"Title": p.title, "Root": relative(p.target, ""), "Menu": menu, "Contents": contents, "Source": sources + p.file,
		"Content": template.HTML(content), // our own Markdown
	})
}

// relative returns the link from one file of the site to another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// searchIndex returns a script with the title, link and text of each part.
func searchIndex(pages []*page) ([]byte, error) {
	var entries [][3]string
	for _, p := range pages {
		for _, part := range p.parts {
			title, link := p.title, p.target
			if part.level > 1 {
				title, link = part.Title+" · "+p.title, p.target+"#"+part.ID
			}
			entries = append(entries, [3]string{title, link, part.Text})
		}
	}
	data, err := json.Marshal(entries)
	return slices.Concat([]byte("found("), data, []byte(")\n")), err
}

func write(out, name string, data []byte) error {
	file := filepath.Join(out, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
