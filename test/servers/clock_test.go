package servers_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/server"
	"drover/internal/server/engine"
	"drover/internal/server/store"
	"drover/internal/serverkeys"
	"drover/internal/test/harness"
	"drover/internal/test/pgtest"
)

// open opens a server in this process, whose clock is off.
func open(t *testing.T, dir, database string, off time.Duration) *server.Server {
	t.Helper()
	s, err := server.New(t.Context(), server.Config{
		Dir: dir, HTTP: "127.0.0.1:0", Fabric: "127.0.0.1:0", Database: database,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Faults: &server.Faults{
			Store: func(s store.Store) store.Store { return s }, Link: func(l engine.Link) engine.Link { return l },
			Wall: func() time.Time { return time.Now().Add(off) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// run has a part of a server run until the test ends, or until stop is called.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return stop
}

func read(t *testing.T, url string) string {
	t.Helper()
	_, text := harness.Get(t, http.DefaultClient, url)
	return text
}

// TestAClockIsWrong: servers go by the clock of their database. One whose own is an hour ahead says so, and what it has
// accepted is due for the others at once, and not in an hour.
func TestAClockIsWrong(t *testing.T) {
	t.Parallel()
	pg := pgtest.Own(t)
	if err := pg.Start(); err != nil {
		t.Fatal(err)
	}
	database, dir := pg.Database(t), harness.Workdir(t)
	right, wrong := filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	b := open(t, right, database, 0)
	var keys bytes.Buffer
	if _, err := serverkeys.Export(right, &keys); err != nil {
		t.Fatal(err)
	}
	if _, err := serverkeys.Import(wrong, &keys); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.FirstApp(t.Context(), harness.AppCode, harness.AppSecret); err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Enrol(t.Context(), agent, "", 0, "10.0.0.9", ""); err != nil {
		t.Fatal(err)
	}
	a := open(t, wrong, database, time.Hour)
	sends := run(t, a.Run)
	serves := run(t, a.Serve)
	run(t, b.Run)
	run(t, b.Serve)
	for _, s := range []*server.Server{a, b} {
		harness.Eventually(t, "the server to be ready", func() bool { return s.Ready() == nil })
	}
	if text := read(t, a.URL()+"/readyz"); !strings.Contains(text,
		"the clock of this server is 1h0m0s ahead of the clock of the database") {
		t.Errorf("it says %s", text)
	}
	if text := read(t, a.URL()+"/metrics"); !strings.Contains(text, "\ndrover_clock_skew_seconds 3") ||
		strings.Contains(text, "\ndrover_clock_skew_seconds 3\n") {
		t.Error("the skew is no metric")
	}
	if text := read(t, b.URL()+"/readyz"); strings.Contains(text, "clock") {
		t.Errorf("a right clock is complained of: %s", text)
	}
	// It takes a call, sends nothing any more and is gone: the item is its own until the lease ends.
	sends()
	p := &harness.Process{
		Host: "0:10.0.0.9", Namespace: "n", Name: "p", Identity: harness.Object{
			"proc_name": "p", "setup_path": "/",
			"user": "root",
		}, Control: harness.Object{"start_cmd": "p"},
	}
	begun := time.Now()
	data, err := harness.Caller{URL: a.URL(), Client: http.DefaultClient}.GSE("operate_proc_v2", p.Request(0))
	if err != nil {
		t.Fatal(err)
	}
	serves()
	caller := harness.Caller{URL: b.URL(), Client: http.DefaultClient}
	entry := caller.Await(t, data["task_id"].(string))[p.Key()].(harness.Object)
	if took := time.Since(begun); entry["error_code"] != 117.0 || took > time.Minute {
		t.Errorf("after %v it ended with %v", took, entry)
	}
}
