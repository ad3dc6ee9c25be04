package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"drover/internal/test/harness"
	"drover/internal/test/pgtest"
	"drover/test/judge"
)

// pair is a primary and its standby. An accepted commit is on both.
type pair struct {
	t                *testing.T
	primary, standby *pgtest.Server
	count            int
}

func newPair(t *testing.T) *pair {
	t.Helper()
	first, err := pgtest.New("fsync=on", "synchronous_commit=on", "full_page_writes=on", "autovacuum=on")
	p := &pair{t: t, primary: first}
	t.Cleanup(func() {
		for _, s := range []*pgtest.Server{p.standby, p.primary} {
			if s == nil {
				continue
			}
			if err := s.Remove(); err != nil {
				t.Error(err)
			}
		}
	})
	p.must(err)
	p.must(first.Start())
	p.must(first.Exec("CREATE DATABASE drover"))
	second, err := pgtest.Clone(first, "standby", first.Settings...)
	p.standby = second
	p.must(err)
	p.follow()
	return p
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// follow starts the standby, and has the primary wait for it from then on.
func (p *pair) follow() {
	p.t.Helper()
	p.must(p.standby.Start())
	p.must(p.primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'"))
	p.must(p.primary.Exec("SELECT pg_reload_conf()"))
	p.must(p.primary.Await(func(ctx context.Context, c *pgx.Conn) error {
		var synchronous bool
		err := c.QueryRow(ctx,
			"SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&synchronous)
		if err == nil && !synchronous {
			err = errors.New("the standby does not follow")
		}
		return err
	}))
}

// fail ends the primary, by a way that the choice decides, promotes the standby and has the old primary follow it.
func (p *pair) fail(random *rand.Rand) {
	p.t.Helper()
	begun := time.Now()
	end := p.primary.Kill
	if random.IntN(3) == 0 {
		end = p.primary.Crash
	}
	p.must(end())
	p.must(p.standby.Promote())
	p.must(p.standby.Exec("ALTER SYSTEM RESET synchronous_standby_names"))
	p.must(p.standby.Exec("SELECT pg_reload_conf()"))
	p.t.Logf("the standby was the primary %v after the end of the other", time.Since(begun).Round(time.Millisecond))
	p.primary, p.standby = p.standby, p.primary
	p.count++
	p.must(p.standby.Follow(p.primary, fmt.Sprint("standby", p.count)))
	p.follow()
}

// TestFailover: callers go on while the primary dies again and again. Every task that was accepted ends, and what the
// callers were told must be explainable by some order of what was really run: nothing is lost, and nothing is run
// twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	length, seed := judge.Choices(t, 25*time.Second)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newPair(t)
	f := &harness.Fleet{T: t, Drover: drover, Agent: agent}
	f.Flags = []string{"--database", pgtest.URL("drover", p.primary, p.standby) + "&target_session_attrs=read-write"}
	f.Begin()
	f.JoinAndStart("one", "127.0.0.2", 0)
	var processes []*harness.Process
	for i := range 4 {
		d := judge.Restless(judge.Daemon(t, f.Dir, fmt.Sprint("p", i)))
		d.Host = "0:127.0.0.2"
		processes = append(processes, d)
	}
	caller := harness.Caller{URL: f.URL, Client: f.Client}
	judge.Round{
		Post: func(name string, body any) (harness.Object, error) {
			data, err := caller.GSE(name, body)
			if err != nil { // the database is away: that is no answer. A task that is lost gets none for ever
				return nil, errors.New("nobody knows")
			}
			return data, nil
		},
		Processes: processes, Callers: 2, Random: random, Length: length, Cut: true,
		Disturb: func(random *rand.Rand) { p.fail(random) },
	}.Run(t)
	if p.count == 0 {
		t.Error("the primary has not died once")
	}
}

// TestServerWaitsForItsDatabase: a server that starts before its database says so, and takes calls once it is there.
func TestServerWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Own(t)
	f := &harness.Fleet{T: t, Drover: drover, Agent: agent, Dir: harness.Workdir(t), Logs: map[string]*harness.Log{}}
	f.URL = "http://" + harness.FreeAddress(t)
	f.Server = f.Start("server", drover, "server", "--data-dir", f.ServerDir(), "--http",
		strings.TrimPrefix(f.URL, "http://"),
		"--fabric", "127.0.0.1:0", "--insecure-http", "--database", db.URL("postgres"))
	harness.Eventually(t, "the server to wait", func() bool {
		status, body := get(f.URL + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "waiting for the database")
	})
	for path, want := range map[string]int{
		"/healthz": 200, "/api/c/compapi/v2/gse/operate_proc_v2/": 503,
		"/api/v1/hosts": 503,
	} {
		if status, body := get(f.URL + path); status != want {
			t.Errorf("while the server waits %s is %d %s, want %d", path, status, body, want)
		}
	}
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	f.Server.URL()
	if status, body := get(f.URL + "/readyz"); status != 200 {
		t.Errorf("afterwards /readyz is %d %s", status, body)
	}
	log := f.Logs["server"].String()
	for _, want := range []string{"cannot open database, retrying", "database became available"} {
		if n := strings.Count(log, want); n != 1 {
			t.Errorf("the log says %d times %q", n, want)
		}
	}
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	ps := exec.CommandContext(t.Context(), drover, "ps", "--data-dir", f.ServerDir())
	if out, err := ps.CombinedOutput(); ps.ProcessState.ExitCode() != 6 || !strings.Contains(string(out), "the server's database is away") {
		t.Errorf("with its database away, drover ps prints %q and ends with %v, want exit status 6", out, err)
	}
}

func get(url string) (status int, body string) {
	status, reply, err := harness.Caller{URL: url, Client: http.DefaultClient}.Do(http.MethodGet, "", nil)
	return status, fmt.Sprint(reply, err)
}
