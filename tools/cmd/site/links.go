package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// deadLinks reads the pages of a site, and returns an error for each link to a file or an anchor of
// the site that does not exist.
func deadLinks(out string) ([]error, error) {
	anchors := map[string]map[string]bool{} // of each file
	links := map[string][]string{}          // of each page
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, _ := filepath.Rel(out, name)
		file = filepath.ToSlash(file)
		anchors[file] = map[string]bool{"": true}
		if path.Ext(file) != ".html" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tokens := html.NewTokenizer(bytes.NewReader(data))
		for tokens.Next() != html.ErrorToken {
			for _, a := range tokens.Token().Attr {
				switch a.Key {
				case "id":
					anchors[file][a.Val] = true
				case "href", "src":
					links[file] = append(links[file], a.Val)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var dead []error
	for _, file := range slices.Sorted(maps.Keys(links)) {
		for _, link := range links[file] {
			name, anchor, _ := strings.Cut(link, "#")
			if strings.Contains(name, ":") {
				continue // elsewhere
			}
			target := file
			if name != "" {
				target = path.Join(path.Dir(file), name)
			}
			if found, exists := anchors[target]; !exists {
				dead = append(dead, fmt.Errorf("%s links to %s, and the site has no %s", file, link, target))
			} else if !found[anchor] {
				dead = append(dead, fmt.Errorf("%s links to %s, and %s has no heading with the anchor %s", file, link, target, anchor))
			}
		}
	}
	return dead, nil
}
