package upgrade_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/agent/procfs"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/test/harness"
)

const host = "0:127.0.0.2"

// rig is a server with one agent, which the test replaces.
type rig struct {
	*harness.Fleet
	t     *testing.T
	dir   string // of the processes
	agent *harness.Program
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Fleet: harness.NewFleet(t, binaries.drover, binaries.agent), t: t, dir: harness.Workdir(t)}
	r.agent = r.JoinAndStart("one", "127.0.0.2", 0)
	return r
}

// begin starts an agent of a build over the work of the last one, and waits until it is linked.
func (r *rig) begin(binary string) {
	r.t.Helper()
	before := strings.Count(r.Logs["one"].String(), linked)
	r.Agent = binary
	r.agent = r.StartAgent("one")
	harness.Eventually(r.t, "the agent to be linked", func() bool {
		if r.agent.Ended() {
			r.t.Fatal("the agent ended")
		}
		return strings.Count(r.Logs["one"].String(), linked) > before
	})
	r.Online(host)
}

// linked is what an agent logs when it reaches the server.
const linked = "connected to fabric"

// do calls drover's own API, which must answer with the status.
func (r *rig) do(method, path string, body any, want int) harness.Object {
	r.t.Helper()
	status, reply, err := harness.Caller{URL: r.URL, Client: r.Client}.Do(method, path, body)
	if err != nil || status != want {
		r.t.Fatalf("%s %s: HTTP %d %v, %v", method, path, status, reply, err)
	}
	return reply
}

// processes is what the server shows of each process, by name.
func (r *rig) processes() map[string]harness.Object {
	r.t.Helper()
	all := map[string]harness.Object{}
	next := ""
	for {
		reply := r.do(http.MethodGet, "/api/v1/processes?namespace=shop&limit=200&cursor="+next, nil, http.StatusOK)
		for _, item := range reply["items"].([]any) {
			all[item.(harness.Object)["name"].(string)] = item.(harness.Object)
		}
		if next, _ = reply["next_cursor"].(string); next == "" {
			return all
		}
	}
}

// eventsOf are the kinds of the events of a process.
func (r *rig) eventsOf(name string) (kinds []string) {
	r.t.Helper()
	reply := r.do(http.MethodGet, "/api/v1/events?namespace=shop&limit=200&name="+name, nil, http.StatusOK)
	for _, item := range reply["items"].([]any) {
		kinds = append(kinds, item.(harness.Object)["kind"].(string))
	}
	return kinds
}

// state is that of a process, in what the server shows.
func state(shown harness.Object) string {
	state, _ := shown["state"].(string)
	return state
}

// pid is that of its main process; 0 if there is none.
func pid(shown harness.Object) int {
	instance, _ := shown["instance"].(harness.Object)
	pid, _ := instance["pid"].(float64)
	return int(pid)
}

// memory is what an agent has on its disk.
type memory struct {
	records   map[string]record.Record
	runtimes  map[string]record.Runtime
	histories map[string]record.History
}

// remembered reads what the agent, which has ended, has left on its disk.
func (r *rig) remembered() memory {
	r.t.Helper()
	dir := r.t.TempDir()
	for _, name := range []string{"state.db", "runtime.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), r.onDisk(name), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	boot, err := procfs.New("/proc").BootID()
	if err != nil {
		r.t.Fatal(err)
	}
	store, err := specstore.Open(dir, boot)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	records, err := store.Records()
	if err != nil {
		r.t.Fatal(err)
	}
	m := memory{map[string]record.Record{}, map[string]record.Runtime{}, map[string]record.History{}}
	for _, rec := range records {
		id := process.ID{Namespace: "shop", Name: rec.ID.Name}
		m.records[id.Name] = rec
		if m.runtimes[id.Name], err = store.GetRuntime(id); err != nil {
			r.t.Fatal(err)
		}
		if m.histories[id.Name], err = store.GetHistory(id); err != nil {
			r.t.Fatal(err)
		}
	}
	return m
}

// onDisk is a file of the agent.
func (r *rig) onDisk(name string) []byte {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.AgentDir("one"), "agent", name))
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// touch makes a file of the processes' directory.
func (r *rig) touch(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}
