package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	out := flag.String("out", "site", "folder of the site, which is replaced")
	flag.Parse()
	pages, err := build(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d pages, begin at %s/index.html\n", pages, *out)
}
