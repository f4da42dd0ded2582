package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kind is a kind of licence, by its SPDX identifier, with words that no other kind has.
type kind struct {
	name  string
	words []string
	// without are words that another kind has besides these.
	without []string
}

// allowed are the kinds that may be linked into a program under Apache-2.0 and given away
// with their texts.
var allowed = []kind{
	{name: "Apache-2.0", words: []string{"apache license", "version 2.0, january 2004"}},
	{name: "MIT", words: []string{"permission is hereby granted, free of charge, to any person obtaining a copy", `the software is provided "as is", without warranty of any kind`}},
	{name: "BSD-3-Clause", words: []string{"redistribution and use in source and binary forms", "promote products derived from this software without specific prior written permission"}},
	{name: "BSD-2-Clause", words: []string{"redistribution and use in source and binary forms", "redistributions in binary form must reproduce"}, without: []string{"promote products derived from"}},
	{name: "ISC", words: []string{"permission to use, copy, modify, and", "distribute this software for any purpose with or without fee is hereby granted"}},
	{name: "MPL-2.0", words: []string{"mozilla public license", "2.0"}},
	{name: "Unlicense", words: []string{"this is free and unencumbered software released into the public domain"}},
	{name: "CC0-1.0", words: []string{"cc0 1.0 universal"}},
}

// foreign are words of licences that are not allowed, even beside one that is. The MPL-2.0
// names the GNU licences.
var foreign = []struct{ words, unless string }{
	{"gnu general public license", "mozilla public license"},
	{"gnu lesser general public license", "mozilla public license"},
	{"gnu affero general public license", "mozilla public license"},
	{"gnu library general public license", "mozilla public license"},
	{"server side public license", ""},
	{"business source license", ""},
	{"commons clause", ""},
	{"elastic license", ""},
	{"creative commons attribution-noncommercial", ""},
	{"advertising materials mentioning features", ""},
}

var (
	space  = regexp.MustCompile(`[\s*#/]+`)
	quotes = strings.NewReplacer("“", `"`, "”", `"`, "''", `"`, "``", `"`)
)

// kindsOf returns the kinds of licence that a text holds. It is an error if there is none
// that is allowed, or another one.
func kindsOf(text string) ([]string, error) {
	plain := quotes.Replace(strings.ToLower(space.ReplaceAllString(text, " ")))
	has := func(words string) bool { return strings.Contains(plain, words) }
	lacks := func(words string) bool { return !has(words) }
	for _, f := range foreign {
		if has(f.words) && (f.unless == "" || lacks(f.unless)) {
			return nil, fmt.Errorf("its licence is not allowed: it speaks of the %s", f.words)
		}
	}
	var kinds []string
	for _, k := range allowed {
		if !slices.ContainsFunc(k.words, lacks) && !slices.ContainsFunc(k.without, has) {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) == 0 {
		return nil, errors.New("its licence is of no kind that is known to be allowed")
	}
	return kinds, nil
}
