package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// texts are phrases of the licenses that the project may use, in lower case with single spaces, by their SPDX names. A
// license has all of its phrases and none of those it lacks. Another text has no name here, and the tests refuse it.
func texts() map[string]struct{ has, lacks []string } {
	const (
		bsd     = "redistribution and use in source and binary forms, with or without modification, are permitted provided"
		endorse = "to endorse or promote products derived from this software"
		permit  = "distribute this software for any purpose with or without fee is hereby granted"
		keep    = "provided that the above copyright notice and this permission notice appear in all copies"
		free    = "permission is hereby granted, free of charge, to any person obtaining a copy of this software and"
	)
	return map[string]struct{ has, lacks []string }{
		"0BSD":         {[]string{permit}, []string{keep}},
		"Apache-2.0":   {[]string{"apache license version 2.0, january 2004"}, nil},
		"BSD-2-Clause": {[]string{bsd}, []string{endorse}},
		"BSD-3-Clause": {[]string{bsd, endorse}, nil},
		"ISC":          {[]string{permit, keep}, nil},
		"MIT":          {[]string{free, "the above copyright notice and this permission notice shall be included"}, nil},
	}
}

// licensesOf returns the licenses of the files that match a pattern and are called as files with licenses are; nil if
// there are none.
func licensesOf(pattern string) *cdx.Licenses {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	var names []string
	for _, file := range files {
		begins := func(word string) bool { return strings.HasPrefix(strings.ToLower(filepath.Base(file)), word) }
		if !slices.ContainsFunc([]string{"license", "licence", "copying"}, begins) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a directory, for one
		}
		names = append(names, recognize(string(data))...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	list := cdx.Licenses{}
	for _, name := range slices.Compact(names) {
		list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: name}})
	}
	return &list
}

// recognize returns the names of the licenses in a text.
func recognize(text string) []string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	in := func(phrase string) bool { return strings.Contains(text, phrase) }
	missing := func(phrase string) bool { return !in(phrase) }
	var names []string
	for name, phrases := range texts() {
		if !slices.ContainsFunc(phrases.lacks, in) && !slices.ContainsFunc(phrases.has, missing) {
			names = append(names, name)
		}
	}
	return names
}
