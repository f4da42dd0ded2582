// Command licences gathers the licences of what is linked into a Go program:
//
//	licences -C DIR -o OUT PACKAGE
//
// For the main package PACKAGE of the module in DIR, it writes into the folder OUT
//
//	MODULES.tsv           a line for each module: path, version, kinds of its licences
//	MODULE/…/LICENSE      each file with a licence, a notice or a patent grant
//
// A file counts if it stands in the folder of a linked package, or in a folder above it, up
// to the module. The standard library is the module "go". The module in DIR is left out.
// OUT is removed first. The same modules give the same bytes.
//
// It exits with 1 if a module has no licence, or one of a kind that is not allowed.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("C", ".", "folder of the module")
	out := flag.String("o", "", "folder that is written")
	flag.Parse()
	if *out == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: licences [-C DIR] -o OUT PACKAGE")
		os.Exit(2)
	}
	if err := run(*dir, flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(dir, pkg, out string) error {
	packages, err := linked(dir, pkg)
	if err != nil {
		return err
	}
	modules, err := gather(packages)
	if err != nil {
		return err
	}
	return write(modules, out)
}
