// Command zhdocs compares the Chinese pages of the repository with the English pages that they were written from.
// README.zh-CN.md is the page of README.md, and docs/zh/PATH of docs/PATH. The first line of a Chinese page names its
// source, with the first 16 digits of the SHA-256 of the source as the writer read it.
//
// A Chinese page whose source has changed lags. A lag is a fault for README.md, the first process file and the pages
// of causes; for other pages it is a notice, and a fault with --all. --renew writes the present sum into the named
// pages, after a person has read them again.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	all := flag.Bool("all", false, "take each lagging or missing page for a fault")
	renew := flag.Bool("renew", false, "write the present sums of their sources into the named Chinese pages")
	flag.Parse()
	if !*renew && flag.NArg() > 0 || *renew && (*all || flag.NArg() == 0) {
		fmt.Fprintln(os.Stderr, "usage: zhdocs [--all] | zhdocs --renew PAGE...")
		os.Exit(2)
	}
	if *renew {
		for _, page := range flag.Args() {
			exitOn(renewSum(".", page))
		}
		return
	}
	findings, err := compare(".")
	exitOn(err)
	failed := false
	for _, f := range findings {
		kind := "notice"
		if f.fault || *all {
			kind, failed = "fault", true
		}
		fmt.Fprintf(os.Stderr, "%s: %s: %s\n", kind, f.page, f.text)
	}
	if failed {
		fmt.Fprintln(os.Stderr, "After a page is up to date: go run ./internal/zhdocs --renew PAGE...")
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "zhdocs:", err)
		os.Exit(1)
	}
}
