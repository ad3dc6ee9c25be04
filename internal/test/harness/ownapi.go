package harness

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// Ask begins an operation on it through drover's own API, with a spec, or with the stored one
// if spec is nil. It returns the operation's id.
func (p *Process) Ask(op string, spec Object) string {
	p.Server.t.Helper()
	body := Object{
		"op":      op,
		"targets": []any{Object{"namespace": p.Namespace, "name": p.Name, "hosts": []string{p.host()}}},
	}
	if spec != nil {
		body["spec"] = spec
	}
	status, reply := p.Server.Do(http.MethodPost, "/api/v1/tasks", body)
	if status != http.StatusAccepted {
		p.Server.t.Fatalf("%s %s: HTTP %d %v", op, p.Name, status, reply)
	}
	return reply["id"].(string)
}

// Outcome waits until an operation of Ask is done, and returns what came of it.
func (s *Server) Outcome(operation string) Object {
	s.t.Helper()
	Eventually(s.t, operation+" to be done", func() bool {
		_, reply := s.Do(http.MethodGet, "/api/v1/tasks/"+operation+"?wait=20", nil)
		return reply["state"] == "done"
	})
	_, reply := s.Do(http.MethodGet, "/api/v1/tasks/"+operation+"/results", nil)
	return reply["items"].([]any)[0].(Object)
}

// Status is what drover's own API shows of it; nothing while no host knows it.
func (p *Process) Status() Object {
	p.Server.t.Helper()
	status, reply := p.Server.Do(http.MethodGet, "/api/v1/processes/"+url.PathEscape(p.Namespace)+"/"+
		url.PathEscape(p.Name), nil)
	if status == http.StatusNotFound {
		return Object{}
	}
	if status != http.StatusOK {
		p.Server.t.Fatalf("status of %s: HTTP %d %v", p.Name, status, reply)
	}
	items := reply["items"].([]any)
	if len(items) != 1 {
		p.Server.t.Fatalf("%s is there %d times", p.Name, len(items))
	}
	return items[0].(Object)
}

// State is the state that drover shows.
func (p *Process) State() string {
	p.Server.t.Helper()
	state, _ := p.Status()["state"].(string)
	return state
}

// PID is the pid of the main process as drover knows it; 0 if it does not run.
func (p *Process) PID() int {
	p.Server.t.Helper()
	instance, _ := p.Status()["instance"].(map[string]any)
	pid, _ := instance["pid"].(float64)
	return max(int(pid), 0)
}

// Events returns what has happened to it of these kinds, or at all, the oldest first.
func (p *Process) Events(kinds ...string) []Object {
	p.Server.t.Helper()
	query := url.Values{"namespace": {p.Namespace}, "name": {p.Name}, "kind": kinds, "limit": {"200"}}
	status, reply := p.Server.Do(http.MethodGet, "/api/v1/events?"+query.Encode(), nil)
	if status != http.StatusOK {
		p.Server.t.Fatalf("events of %s: HTTP %d %v", p.Name, status, reply)
	}
	var events []Object
	for _, e := range reply["items"].([]any) {
		events = append(events, e.(Object))
	}
	slices.Reverse(events)
	return events
}

// AwaitEvents waits until so many have happened, and returns them, the oldest first.
func (p *Process) AwaitEvents(n int, kind string) []Object {
	p.Server.t.Helper()
	var events []Object
	Eventually(p.Server.t, fmt.Sprintf("%d events %s of %s", n, kind, p.Name), func() bool {
		events = p.Events(kind)
		return len(events) >= n
	})
	return events
}
