package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/store/storetest"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/baretest"
	"drover/internal/server/store/sqlite"
	"drover/test/bench/lab"
)

// fleet is how many hosts are known where calls are measured.
const fleet = 30_000

// served is a server without any agent at work, on a database of hosts that have reported and of tasks that are done.
type served struct {
	*lab.Drover
	b *bench
}

// tasks are the sizes of the tasks that are done.
func tasks() []int { return []int{1000, fleet} }

func taskName(n int) string { return fmt.Sprintf("done-%d", n) }

func host(i int) string     { return fmt.Sprintf("0:10.%d.%d.%d", i>>16, i>>8&255, i&255) }
func agentKey(i int) string { return fmt.Sprintf("UA%054d", i) }

func proc() process.ID { return process.ID{Namespace: lab.Namespace, Name: "nginx"} }

func spec() *process.Spec {
	return &process.Spec{
		ProcessName: "nginx", Directory: "/usr/sbin", PIDFile: "/run/nginx.pid", User: "root",
		Start: "/usr/sbin/nginx", Stop: "/usr/sbin/nginx -s stop",
		Reload: &v1.Reload{Command: "/usr/sbin/nginx -s reload"}, Compat: new(v1.Compat{}.Defaulted()),
	}
}

func observed(i int) store.Observed {
	return store.Observed{Agent: agentKey(i), Process: proc(), Spec: spec(), Status: process.Status{
		Known: true, Hosted: true, Want: process.WantRunning, State: "running", ProcName: "nginx",
		RegisteredAt: 1_700_000_000, LastStartAt: 1_700_000_000, ReportedAt: 1_700_000_100,
		Instance: process.Instance{
			PID: 1000 + i, Cmdline: "nginx: master process /usr/sbin/nginx", Stat: "S",
			StartedAt: 1_700_000_000, Elapsed: 100, CPU: 0.5, Mem: 0.1, RSS: 1800, VSize: 56000, Threads: 1,
		},
	}}
}

func task(id string, n int) *store.Task {
	r := store.Request{Op: process.Start, Process: proc(), Spec: spec()}
	for i := range n {
		r.Targets = append(r.Targets, store.Target{
			ItemKey: host(i) + ":" + lab.Namespace + ":nginx", Spelling: host(i),
			Agent: agentKey(i),
		})
	}
	return &store.Task{
		ID: id, App: lab.AppCode, User: "bench", Created: time.Now(),
		Requests: []store.Request{r},
	}
}

// serve plants the database and starts the server on it.
func (b *bench) serve(ctx context.Context, name string) (*served, error) {
	dir := filepath.Join(b.Disk, name, "server")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, filepath.Join(dir, "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(plant(ctx, db), db.Close()); err != nil {
		return nil, fmt.Errorf("cannot plant a database: %w", err)
	}
	d, err := b.Drover(ctx, name, true)
	return &served{d, b}, err
}

func plant(ctx context.Context, db *sqlite.DB) error {
	rows := make([]store.Observed, fleet)
	for i := range rows {
		rows[i] = observed(i)
		if err := db.PutAgent(ctx, store.Agent{Key: agentKey(i), IP: host(i)[2:], Created: time.Now()}); err != nil {
			return err
		}
	}
	if err := db.PutObserved(ctx, store.ReportMark{}, rows, nil); err != nil {
		return err
	}
	for _, n := range tasks() {
		if err := storetest.Create(ctx, db, task(taskName(n), n), store.AuditRow{At: time.Now()}); err != nil {
			return err
		}
		items, err := db.LeaseItems(ctx, time.Now(), time.Now(), n)
		if err != nil {
			return err
		}
		outcomes := map[string]process.Outcome{}
		for _, it := range items {
			outcomes[it.ID] = process.Outcome{Text: process.Success, Hosted: true}
		}
		if _, err := db.Finish(ctx, storetest.Reported("", outcomes)); err != nil {
			return err
		}
	}
	return nil
}

// accept measures one call that begins 1,000 operations.
func (b *bench) accept(ctx context.Context) error {
	s, err := b.serve(ctx, "accept")
	if err != nil {
		return err
	}
	defer s.Close()
	bare, err := baretest.Open(ctx, filepath.Join(b.Disk, "accept.db"))
	if err != nil {
		return err
	}
	defer bare.Close() //nolint:errcheck // nobody reads it again
	const items = 1000
	rows := make([]baretest.Row, items)
	requests := make([]lab.Object, items)
	for i := range rows {
		name := fmt.Sprintf("nginx-%d", i)
		requests[i] = lab.Spec{
			Name: name, Start: fmt.Sprintf("/usr/sbin/nginx -c /etc/%s.conf", name),
			PIDFile: fmt.Sprintf("/run/%s.pid", name),
		}.Request(lab.OpStart)
		requests[i]["agent_id_list"] = []string{host(i)}
		rows[i] = baretest.Row{
			Key: host(i) + ":" + lab.Namespace + ":" + name, Asked: host(i), Agent: agentKey(i), Op: "start",
			Namespace: lab.Namespace, Name: name,
			Deadline: 1 << 60,
		}
	}
	body, err := json.Marshal(lab.Object{"proc_operate_req": requests})
	if err != nil {
		return err
	}
	one, err := json.Marshal(lab.Object{"proc_operate_req": []lab.Object{{
		"meta": requests[0]["meta"], "op_type": lab.OpStart, "agent_id_list": hosts(items), "spec": requests[0]["spec"],
	}}})
	if err != nil {
		return err
	}
	withSpecs := slices.Clone(rows)
	for i := range withSpecs {
		stored, err := storedSpec(requests[i])
		if err != nil {
			return err
		}
		withSpecs[i].Stored = stored
	}
	for _, c := range []struct {
		what string
		body []byte
		rows []baretest.Row
	}{
		{"accept 1,000 items: 1 request of 1,000 hosts", one, rows},
		{"accept 1,000 items: 1,000 requests, a spec of its own each", body, withSpecs},
	} {
		var floor, drover lab.Series
		for range looks {
			var reply struct {
				Task string `json:"task_id"`
			}
			floor = append(floor, timed(func() { err = bare.Put(ctx, c.rows) }))
			if err != nil {
				return err
			}
			drover = append(drover, timed(func() { err = s.Call("operate_proc_multi", c.body, &reply) }))
			if err != nil {
				return err
			}
			if _, err := s.Await(reply.Task); err != nil {
				return err
			}
		}
		b.time(c.what, floor, drover, within(3))
	}
	return nil
}

// storedSpec is what a server has to keep of a request to send it: its spec.
func storedSpec(request lab.Object) (string, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	ops, err := gse.ReadOperate(body)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(ops[0].Spec)
	return string(text), err
}

func hosts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = host(i)
	}
	return list
}

// poll measures one poll of tasks that are done.
func (b *bench) poll(ctx context.Context) error {
	s, err := b.serve(ctx, "poll")
	if err != nil {
		return err
	}
	defer s.Close()
	for _, n := range tasks() {
		rows := make([]baretest.Row, n)
		for i := range rows {
			rows[i] = baretest.Row{
				Asked: host(i), Agent: agentKey(i), Op: "start", Namespace: lab.Namespace,
				Name: "nginx", State: 4, Deadline: 1 << 60,
			}
		}
		body := []byte(fmt.Sprintf(`{"task_id":%q}`, taskName(n)))
		if err := s.reads(ctx, fmt.Sprintf("poll %d keys", n), "get_proc_operate_result_v2", body, rows,
			within(2)); err != nil {
			return err
		}
	}
	return nil
}

// status measures one look at the states of many hosts.
func (b *bench) status(ctx context.Context) error {
	s, err := b.serve(ctx, "status")
	if err != nil {
		return err
	}
	defer s.Close()
	for _, n := range []int{200, 1000, 5000} {
		rows := make([]baretest.Row, n)
		for i := range rows {
			o := observed(i)
			stored, err := json.Marshal([]any{o.Status, o.Spec})
			if err != nil {
				return err
			}
			rows[i] = baretest.Row{Agent: agentKey(i), Namespace: lab.Namespace, Name: "nginx", Stored: string(stored)}
		}
		body, err := json.Marshal(lab.Object{
			"meta":          lab.Object{"namespace": lab.Namespace, "name": "nginx"},
			"agent_id_list": hosts(n),
		})
		if err != nil {
			return err
		}
		a := within(2).and("5,000 in ≤ 100 ms", func(_, drover lab.Series) bool { return drover.Quantile(0.5) <= 100 })
		if err := s.reads(ctx, fmt.Sprintf("get_proc_status_v2 of %d hosts", n), "get_proc_status_v2", body, rows,
			a); err != nil {
			return err
		}
	}
	b.Note(
		"get_proc_status: what a caller of the incumbent has published is 290–410 ms for 200 hosts and 2,200–4,300 ms for 5,000")
	return nil
}

// reads measures a call against a server that reads the rows of a bare database and writes the very bytes of the reply,
// a piece with each row.
func (s *served) reads(ctx context.Context, what, name string, body []byte, rows []baretest.Row, a aim) error {
	reply, err := s.Raw(name, body)
	if err != nil {
		return err
	}
	if bytes.Count(reply, []byte("10.")) < len(rows) {
		return fmt.Errorf("the reply of %s holds too few hosts: %.300s", name, reply)
	}
	for i := range rows {
		rows[i].Text = string(reply[len(reply)*i/len(rows) : len(reply)*(i+1)/len(rows)])
	}
	bare, err := baretest.Open(ctx, filepath.Join(s.b.Disk, fmt.Sprintf("%s-%d.db", name, len(rows))))
	if err != nil {
		return err
	}
	defer bare.Close() //nolint:errcheck // nobody reads it again
	if err := bare.Put(ctx, rows); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // what cannot be read shows in the reply
			_ = bare.Read(r.Context(), func(row *baretest.Row) error {
				_, err := io.WriteString(w, row.Text)
				return err
			})
		}),
	}
	go srv.Serve(listener) //nolint:errcheck // it says that it was closed
	defer srv.Close()      //nolint:errcheck // nothing was written
	floorServer := &lab.Drover{URL: "http://" + listener.Addr().String()}

	var floor, drover lab.Series
	for range looks {
		var bareReply, ours []byte
		floor = append(floor, timed(func() { bareReply, err = floorServer.Raw(name, body) }))
		if err != nil {
			return err
		}
		drover = append(drover, timed(func() { ours, err = s.Raw(name, body) }))
		if err != nil {
			return err
		}
		if len(bareReply) != len(reply) || len(ours) < len(reply)-100 {
			return fmt.Errorf("%s: replies of %d and %d bytes, the first one had %d", name, len(bareReply), len(ours),
				len(reply))
		}
	}
	s.b.time(what+fmt.Sprintf(", %d KiB", len(reply)>>10), floor, drover, a)
	return nil
}
