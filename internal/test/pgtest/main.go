package pgtest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"drover/internal/agent/pidns"
)

// Main runs the tests of a package in a pid namespace of their own, beside a server that is at *server while they run.
// The caller hands the result to os.Exit.
//
// For root a machine without PostgreSQL is a failure, as make test-deps installs it. For an ordinary user the tests are
// left out, which is told on standard error. With -short everybody leaves them out.
func Main(m pidns.Main, server **Server) int {
	return pidns.Run(beside{m, server})
}

type beside struct {
	tests  pidns.Main
	server **Server
}

// Run implements pidns.Main.
func (b beside) Run() int {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "LEFT OUT: what needs PostgreSQL, by -short")
		return 0
	}
	if _, err := programs(); err != nil && (os.Geteuid() != 0 || onlyRoot()) {
		fmt.Fprintln(os.Stderr, "LEFT OUT:", err)
		return 0
	}
	s, err := New()
	if err == nil {
		err = s.Start()
	}
	code := 1
	if err == nil {
		*b.server = s
		code = b.tests.Run()
	}
	if s != nil {
		if end := s.Remove(); end != nil && err == nil {
			err = end
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
