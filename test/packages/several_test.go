package packages_test

import (
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestPagesOfSeveralServers follows the pages from one server with SQLite to several with PostgreSQL and brokers of
// their own.
func TestPagesOfSeveralServers(t *testing.T) {
	t.Parallel()
	packages := build(t, "1.0.0")
	l := newLab(t, "drover", "host-1", "host-2", "drover-2", "db", "nats1", "nats2", "nats3")
	w := l.setUp(packages)
	l.machines["drover-2"].give(packages + "/drover_*.deb")
	for _, name := range []string{"nats1", "nats2", "nats3"} {
		l.machines[name].give(binaries.nats)
		l.machines[name].run("mv " + filepath.Base(binaries.nats) + " nats-server")
	}
	l.follow("database.md")
	w.unchanged("the move to PostgreSQL")
	l.follow("servers.md")
	w.unchanged("several servers and brokers")
	// One of each less is enough.
	w.server.run("systemctl stop drover-server")
	l.machines["nats1"].run("systemctl stop nats-server")
	l.settle()
	second := l.machines["drover-2"]
	second.run("drover restart web/nginx --yes")
	// The server that is left can tell the brokers whom to cut off.
	links := func(m *machine) int { return strings.Count(m.run("ss -Htn state established dport = :4222"), "\n") }
	second.run("drover hosts remove 0:10.9.0.3")
	harness.Eventually(t, "a host that was removed to be cut off", func() bool { return links(w.hosts[1]) == 0 })
	if n := links(w.hosts[0]); n != 1 {
		t.Errorf("the other host has %d links to brokers, want 1", n)
	}
}
