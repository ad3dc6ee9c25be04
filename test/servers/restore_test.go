package servers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/test/harness"
)

// TestRestoredDatabase restores the database of two servers from a dump, beside a proxy whose connections to agents
// outlive the servers: what docs/ops/database.md says, with a release before the dump and another one after it.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	restoredDatabase(t, 1, 2)
}

// TestRestoredDatabaseOfTwentyHosts is TestRestoredDatabase at length.
func TestRestoredDatabaseOfTwentyHosts(t *testing.T) { restoredDatabase(t, 8, 12) }

// restored is a fleet whose database is restored.
type restored struct {
	*site
	hosts []string
}

func restoredDatabase(t *testing.T, direct, behind int) {
	r := &restored{site: newDatabase(t)}
	flags := r.together(2)
	proxies := harness.FreeAddress(t)
	flags[0] = append(flags[0], "--proxies", proxies)
	flags[1] = append(flags[1], "--proxies", harness.FreeAddress(t))
	one := r.startServer(filepath.Join(r.dir, "server1"), flags[0]...)
	keys, second := filepath.Join(r.dir, "keys.tar"), filepath.Join(r.dir, "server2")
	r.must("server", "keys", "export", keys, "--data-dir", one.dir)
	r.must("server", "keys", "import", keys, "--data-dir", second)
	r.startServer(second, flags[1]...)
	r.trust(one.dir)
	_, at := r.proxy("gate", 1, one)
	for i := range direct {
		ip := fmt.Sprintf("127.0.1.%d", i+1)
		r.agent(fmt.Sprint("direct", i), ip, one)
		r.hosts = append(r.hosts, "0:"+ip)
	}
	for i := range behind {
		ip := fmt.Sprintf("127.0.2.%d", i+1)
		r.agentOf(1, fmt.Sprint("behind", i), ip, one, at)
		r.hosts = append(r.hosts, "1:"+ip)
	}
	r.apply("A")
	r.runs("at first", "A")
	dump, err := r.pg.Run("pg_dump", "--exclude-table-data", "package_pieces", "--format", "custom", r.name())
	if err != nil {
		t.Fatal(err)
	}
	r.apply("B")
	r.runs("after the dump", "B")
	r.must("stop", "shop/other", "--hosts", r.hosts[len(r.hosts)-1], "--yes", "--data-dir", one.dir)
	newest, moment := r.revision(), time.Now()
	lost, was := r.events(), r.past(moment)
	r.restore(dump)

	for process, state := range r.past(moment) {
		if state != was[process] && state != "unknown" {
			t.Errorf("after the restore %s is said to have been %s, which was %s", process, state, was[process])
		}
	}
	// No host has told yet what it has, or all have: nobody takes what the dump says for what there is.
	differs := r.run("diff", "-f", r.file("A"), "--data-dir", one.dir)
	if differs.Code != 3 || !strings.Contains(differs.Out, "RELEASE") {
		t.Errorf("diff after the restore: exit code %d\n%s%s", differs.Code, differs.Out, differs.Errors)
	}
	r.runs("after the restore", "B")
	r.apply("A")
	r.runs("after the apply", "A")
	for _, host := range r.hosts {
		told := r.must("get", "shop/web", "--hosts", host, "--data-dir", r.servers[1].dir)
		if !strings.Contains(told, "RELEASE: A") {
			t.Errorf("%s is told to have\n%s", host, told)
		}
	}
	r.apply("C")
	r.runs("after another apply", "C")
	if again := r.revision(); again <= newest {
		t.Errorf("revision %d comes after revision %d of the lost time", again, newest)
	}
	harness.Eventually(t, "the events of the lost time to come back", func() bool {
		now := r.events()
		lost = slices.DeleteFunc(lost, func(event string) bool { return slices.Contains(now, event) })
		return len(lost) == 0
	})
	harness.Eventually(t, "the states of the lost time to come back", func() bool {
		return maps.Equal(r.past(moment), was)
	})

	// A mere restart is no other incarnation: nobody tells anything again.
	for _, n := range r.servers {
		if err := n.program().Terminate(); err != nil {
			t.Fatal(err)
		}
		n.restart()
	}
	for _, host := range r.hosts {
		r.servers[0].shows(host, "online")
	}
	for _, n := range r.servers {
		if told := strings.Count(n.log.String(), "the database was restored from a copy"); told > 1 {
			t.Errorf("%s found %d restorations", n.name, told)
		}
	}
}

// name is that of the database.
func (r *restored) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.database, "postgres://drover@/"), "?")
	return name
}

// file writes a process file with a release.
func (r *restored) file(release string) string {
	var text strings.Builder
	for i, host := range r.hosts {
		dir := filepath.Join(r.dir, fmt.Sprint("host", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&text, `---
namespace: shop
processes:
  web:
    run: sh -c 'echo $RELEASE >>runs; exec sleep 1000'
    directory: %s
    hosts: [%q]
    environment: {RELEASE: %s}
    ready: {alive: 0s}
`, dir, host, release)
	}
	fmt.Fprintf(&text, `---
namespace: shop
processes:
  other:
    run: sleep 1001
    hosts: [%q]
    ready: {alive: 0s}
`, r.hosts[len(r.hosts)-1])
	path := filepath.Join(r.dir, release+".yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *restored) apply(release string) {
	r.t.Helper()
	r.must("apply", "-f", r.file(release), "--yes", "--data-dir", r.servers[0].dir)
}

// runs compares which release each host has started last.
func (r *restored) runs(when, want string) {
	r.t.Helper()
	for i, host := range r.hosts {
		text, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprint("host", i), "runs"))
		if err != nil {
			r.t.Fatal(err)
		}
		if all := strings.Fields(string(text)); len(all) == 0 || all[len(all)-1] != want {
			r.t.Errorf("%s: %s has run %v, want %s last", when, host, all, want)
		}
	}
}

// revision returns the latest revision of the namespace.
func (r *restored) revision() int {
	r.t.Helper()
	told := r.must("revisions", "shop", "--no-headers", "--data-dir", r.servers[0].dir)
	n, err := strconv.Atoi(strings.Fields(told)[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// events returns what the servers tell of the past of the processes, without what a restoration may change: the order
// in which the events came, and the fields that a lost revision has changed.
func (r *restored) events() (all []string) {
	r.t.Helper()
	var rows []v1.Event
	r.read(&rows, "events", "shop/*", "--since", "1h", "--limit", "0")
	for _, e := range rows {
		all = append(all, fmt.Sprint(e.At, e.Host.IP, e.Name, e.Kind, e.From, e.To, e.Actor, e.PID, e.Revision))
	}
	return all
}

// past returns what the servers tell of the processes at a moment.
func (r *restored) past(moment time.Time) map[string]string {
	r.t.Helper()
	var rows []v1.Process
	r.read(&rows, "ps", "shop/*", "--at", moment.Format(time.RFC3339Nano))
	all := map[string]string{}
	for _, p := range rows {
		state := p.State
		if p.Instance != nil {
			state += fmt.Sprintf(" as %d", p.Instance.PID)
		}
		all[p.Name+"@"+p.Host.IP] = state
	}
	return all
}

// read decodes what a command of drover prints.
func (r *restored) read(into any, args ...string) {
	r.t.Helper()
	told := r.run(append(args, "-o", "json", "--data-dir", r.servers[0].dir)...)
	if err := json.Unmarshal([]byte(told.Out), into); err != nil {
		r.t.Fatalf("drover %q: %v: exit code %d: %s", args, err, told.Code, told.Errors)
	}
}

// restore ends the servers, replaces their database by what was dumped, and starts them again.
func (r *restored) restore(dump []byte) {
	r.t.Helper()
	var ends sync.WaitGroup
	for _, n := range r.servers {
		ends.Go(func() { n.program().End(syscall.SIGTERM) })
	}
	ends.Wait()
	path := filepath.Join(r.pg.Dir, "dump")
	if err := os.WriteFile(path, dump, 0o644); err != nil { //nolint:gosec // the account of the database reads it
		r.t.Fatal(err)
	}
	for _, statement := range []string{
		"ALTER DATABASE " + r.name() + " RENAME TO before_restore", "CREATE DATABASE " + r.name() + " TEMPLATE template0",
	} {
		if err := r.pg.Exec(statement); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := r.pg.Run("pg_restore", "--exit-on-error", "--no-owner", "--dbname", r.name(), path); err != nil {
		r.t.Fatal(err)
	}
	for _, n := range r.servers {
		n.start()
	}
	for _, n := range r.servers {
		n.program().URL()
	}
}
