package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// lastMoment is the last time that JSON can represent, in Unix seconds: the end of the year 9999. Hosts may report
// later times.
const lastMoment = 253402300799

// instant returns Unix milliseconds as a time; nil if the value is not positive or is after lastMoment.
func instant(milliseconds int64) *time.Time {
	if milliseconds <= 0 || milliseconds > lastMoment*1000 {
		return nil
	}
	t := time.UnixMilli(milliseconds).UTC()
	return &t
}

func (h *Handler) viewEvent(s *store.StoredEvent, host v1.Host) v1.Event {
	host.LastSeen = nil // an event does not change later
	e := &s.Event
	v := v1.Event{
		Cursor: s.Cursor, At: time.UnixMilli(min(e.At, lastMoment*1000)).UTC(), ReceivedAt: s.Received, Host: host,
		Namespace: e.Process.Namespace, Name: e.Process.Name, Kind: string(e.Kind), From: e.From, To: e.To,
		Actor: e.Actor,
		EventDetail: v1.EventDetail{
			PID: e.PID, RunSeconds: float64(e.RunTime) / 1000, Output: e.Output, Attempt: e.Attempt,
			Exit: viewExit(e.Exit), Breach: e.Breach, Revision: e.Revision, Fields: e.Fields,
		},
	}
	if c := e.Cause; c.ID != "" || c.Text != "" {
		cause := viewCause(c)
		v.Cause = &cause
	}
	return v
}

func viewCause(c process.Cause) v1.Cause {
	return v1.Cause{ID: string(c.ID), Text: c.Text, Evidence: c.Evidence, Since: instant(c.Since)}
}

func viewCauses(all []process.Cause) []v1.Cause {
	var views []v1.Cause
	for _, c := range all {
		views = append(views, viewCause(c))
	}
	return views
}

func viewExit(x *process.Exit) *v1.Exit {
	if x == nil {
		return nil
	}
	return &v1.Exit{
		Known: x.Known, Code: x.Code, Signal: x.Signal, Core: x.Core, OOM: x.OOM, Peak: x.Peak,
		At: instant(x.At),
	}
}

// searchTime is how long a call searches for matching events before it returns the events it has.
const searchTime = 500 * time.Millisecond

// listEvents lists events, the latest first. If few events match or the caller may not see all, a page may be shorter
// than its limit and still not the last.
func (h *Handler) listEvents(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, hosts := p.events()
	f.Until = p.time("until")
	limit := p.limit()
	var before store.EventMark
	p.cursor(&before)
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.Join(f.Namespaces, " ") + "/" + f.Name)
	r := eventReader{h: h, who: &c.Principal}
	var err error
	if f.Agents, err = r.chosenEver(ctx, hosts); err != nil {
		return reply{}, err
	}
	if f.Copies, err = h.hasCopies(ctx, f); err != nil {
		return reply{}, err
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("list the events", err)
	}
	var views []v1.Event
	f.Within = r.eventsWithin(f.Namespaces)
	for begun := time.Now(); ; {
		events, next, err := h.Events.EventsBefore(ctx, before, f, limit-len(views))
		if err != nil {
			return reply{}, failure("list the events", err)
		}
		shown, err := r.views(ctx, events)
		if err != nil {
			return reply{}, err
		}
		views = append(views, shown...)
		before = next
		if before == (store.EventMark{}) || len(views) == limit || time.Since(begun) > searchTime {
			break
		}
	}
	c.Audit.Targets = len(views)
	weight := 0
	for i := range views {
		weight += eventWeight(&views[i])
	}
	var end any
	if before != (store.EventMark{}) {
		end = before
	}
	body := v1.EventPage{Page: pageOf(c, views, end), Last: last}
	return reply{status: http.StatusOK, body: body, weight: weight}, nil
}

// hasCopies reports whether the selected process has copies: without them the events of one process are found by an
// index.
func (h *Handler) hasCopies(ctx context.Context, f store.EventFilter) (bool, error) {
	if len(f.Namespaces) != 1 || f.Name == "" || wildcard.IsPattern(f.Namespaces[0]+f.Name) {
		return true, nil
	}
	copies := store.ObservedFilter{Namespace: f.Namespaces[0], Name: f.Name + "@*"}
	rows, _, err := h.Listing.ListObserved(ctx, copies, store.ObservedKey{}, 1)
	if err != nil {
		return false, failure("list the processes", err)
	}
	return len(rows) > 0, nil
}

// eventWeight returns the approximate size of an event on a page, in bytes.
func eventWeight(v *v1.Event) int {
	n := len(v.Output)
	if v.Cause != nil {
		n += len(v.Cause.Text)
		for _, text := range v.Cause.Evidence {
			n += len(text)
		}
	}
	return n
}

// events reads the parameters that select events, except their end. hosts are those that the caller chose.
func (p *params) events() (f store.EventFilter, hosts hostChoice) {
	f = store.EventFilter{Namespaces: p.list("namespace"), Name: p.text("name"), From: p.time("since")}
	kinds := process.EventKinds()
	for _, k := range p.list("kind") {
		if !slices.Contains(kinds, process.EventKind(k)) {
			p.fail(invalid("kind", "is %.40q: there is no such kind of event", k))
		}
		f.Kinds = append(f.Kinds, process.EventKind(k))
	}
	return f, p.hosts()
}

// eventReader shows a caller the events that it may see. It looks up the caller's rights once for each namespace, and
// reads the removed agents and the earlier names of agents once, if there is a question about them.
type eventReader struct {
	h      *Handler
	who    *access.Principal
	reach  map[string]access.Reach
	former map[string]store.FormerAgent
	// names are earlier names of agents, the latest first.
	names []store.FormerName
}

// views returns the events that the caller may see, for it.
func (r *eventReader) views(ctx context.Context, events []store.StoredEvent) (views []v1.Event, err error) {
	for i := range events {
		agent, err := r.agentOf(ctx, events[i].Agent)
		if err != nil {
			return nil, err
		}
		if r.at(events[i].Event.Process).Covers(gate.Host(agent.Agent)) {
			agent.Key = events[i].Agent // the only name of an agent that nobody knows any more
			views = append(views, r.h.viewEvent(&events[i], r.h.viewHost(agent.Agent)))
		}
	}
	return views, nil
}

// mostFormer is how many removed agents, and how many earlier names of agents, drover still knows.
const mostFormer = 10_000

// readFormer reads the removed agents and the earlier names of agents.
func (r *eventReader) readFormer(ctx context.Context) error {
	if r.former != nil {
		return nil
	}
	list, err := r.h.Timeline.ListFormer(ctx, mostFormer)
	if err != nil {
		return failure("read the removed hosts", err)
	}
	if r.names, err = r.h.Timeline.FormerNames(ctx, mostFormer); err != nil {
		return failure("read the earlier names of hosts", err)
	}
	r.former = map[string]store.FormerAgent{}
	for _, a := range list {
		r.former[a.Key] = a
	}
	return nil
}

// agentOf returns an agent. Removed is zero if the agent is still there. An agent that nobody knows any more is zero: a
// caller needs the rights to all hosts.
func (r *eventReader) agentOf(ctx context.Context, key string) (store.FormerAgent, error) {
	if _, joined := r.h.Directory.ByKey(key); !joined {
		if err := r.readFormer(ctx); err != nil {
			return store.FormerAgent{}, err
		}
	}
	return r.ever(key), nil
}

// ever is agentOf after readFormer.
func (r *eventReader) ever(key string) store.FormerAgent {
	if a, joined := r.h.Directory.ByKey(key); joined {
		return store.FormerAgent{Agent: a}
	}
	return r.former[key]
}

// chosenEver returns what Handler.chosen returns, the removed agents that a choice matches, and the agents that it
// matches by an earlier name.
func (r *eventReader) chosenEver(ctx context.Context, s hostChoice) ([]string, error) {
	keys := r.h.chosen(s)
	if keys == nil {
		return nil, nil
	}
	if err := r.readFormer(ctx); err != nil {
		return nil, err
	}
	for key, a := range r.former {
		if (len(s.names) == 0 || anyMatches(s.names, a.Agent)) && s.selects(&a.Agent) {
			keys = append(keys, key)
		}
	}
	for i := range r.names {
		n := &r.names[i]
		agent := r.ever(n.Key).Agent
		if len(s.names) > 0 && anyMatches(s.names, n.Agent) && s.selects(&agent) && !slices.Contains(keys, n.Key) {
			keys = append(keys, n.Key)
		}
	}
	return keys, nil
}

// within returns the namespaces of which the caller may see something, so that the store does not even read hidden
// rows. It is nil if the filter names exactly one namespace.
func (r *eventReader) within(named ...string) []string {
	if len(named) == 1 && named[0] != "" && !wildcard.IsPattern(named[0]) {
		return nil
	}
	return r.who.Namespaces(access.OperationOf(process.Query))
}

// eventsWithin is within for events, because some events are about a host and have no namespace.
func (r *eventReader) eventsWithin(named []string) []string {
	patterns := r.within(named...)
	if patterns != nil && !r.who.OnHosts(access.ReadAgents).Nowhere() {
		patterns = append(patterns, "")
	}
	return patterns
}

// at returns the hosts on which the caller may read a process. An event without a process is about the host.
func (r *eventReader) at(id process.ID) access.Reach {
	if id == (process.ID{}) {
		return r.who.OnHosts(access.ReadAgents)
	}
	at, known := r.reach[id.Namespace]
	if !known {
		at = r.who.On(access.OperationOf(process.Query), id.Namespace)
		if r.reach == nil {
			r.reach = map[string]access.Reach{}
		}
		r.reach[id.Namespace] = at
	}
	return at
}

const (
	// maxStreams is how many streams an app may have at the same time.
	maxStreams = 16
	// streamLife is how long a stream lasts; then its reader reconnects and is authenticated again.
	streamLife = 15 * time.Minute
	heartbeat  = 15 * time.Second
	// recheck is the interval at which a stream reads the rights of its reader again.
	recheck = 10 * time.Second
	// streamWrite is how long a reader may take to receive one write.
	streamWrite = 30 * time.Second
	// streamBatch is how many events are read, and held in memory, at once.
	streamBatch = 100
	// streamPause is the minimum time between two reads of new events, so that a burst of events needs few reads.
	streamPause = 50 * time.Millisecond
)

// streamSlots counts the open streams or replies of each app.
type streamSlots struct {
	mu    sync.Mutex
	byApp map[string]int
}

// enter adds one, unless the app has reached the limit.
func (s *streamSlots) enter(app string, most int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byApp[app] >= most {
		return nil, false
	}
	if s.byApp == nil {
		s.byApp = map[string]int{}
	}
	s.byApp[app]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byApp[app]--; s.byApp[app] == 0 {
			delete(s.byApp, app)
		}
	}, true
}

// streamEvents sends events as they arrive, as server-sent events. It ends when the caller hangs up, after streamLife,
// or when the server stops. A reader that reconnects with the id of the last event that it has read misses nothing.
func (h *Handler) streamEvents(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, hosts := p.events()
	f.Copies = true
	after, resumed := p.cursorNumber("after", c.r.Header.Get("Last-Event-Id"))
	if err := p.done(); err != nil {
		return reply{}, err
	}
	f.Agents = h.chosen(hosts) // removed hosts have no further events
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("read the events", err)
	}
	switch {
	case !resumed:
		after = last
	case after > last: // the cursor is from another database: every event here is new
		after = 0
	}
	leave, ok := h.streams.enter(c.Principal.App, maxStreams)
	if !ok {
		return reply{}, busy(fmt.Sprintf("the app has %d streams of events open", maxStreams),
			int(heartbeat/time.Second))
	}
	defer leave()
	if err := h.Audit.NoteAudit(ctx, c.Row()); err != nil {
		return reply{}, failure("record the call", err)
	}
	c.Audited = true
	s := stream{
		h: h, c: c, filter: f, at: after, reader: eventReader{h: h, who: &c.Principal}, checked: h.Now(),
		control: http.NewResponseController(c.w),
	}
	s.filter.Within = s.reader.eventsWithin(f.Namespaces)
	s.run(ctx)
	return reply{written: true}, nil
}

// cursorNumber reads the cursor that a stream sent with an event. The header of a reconnecting reader overrides the
// query.
func (p *params) cursorNumber(name, header string) (cursor int64, given bool) {
	v := p.text(name)
	if header != "" {
		v, name = header, "Last-Event-ID"
	}
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		p.fail(invalid(name, "is %.40q: expected the cursor of an event", v))
	}
	return n, true
}

// stream is one open stream.
type stream struct {
	h      *Handler
	c      *call
	filter store.EventFilter
	reader eventReader
	// at is the cursor up to which the stream has read, and looked the time of that read.
	at     int64
	looked time.Time
	// checked is the time at which the reader's rights were read.
	checked time.Time
	control *http.ResponseController
}

func (s *stream) run(ctx context.Context) {
	woken, stop := s.h.Arrivals.ListenEvents()
	defer stop()
	header := s.c.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	s.c.w.WriteHeader(http.StatusOK)
	beat, end := time.NewTicker(heartbeat), time.NewTimer(streamLife)
	defer beat.Stop()
	defer end.Stop()
	alive := true
	for tell := true; alive; {
		if tell {
			alive = s.send(s.place("still here"))
		}
		alive = alive && s.catchUp(ctx)
		if !alive {
			return
		}
		select {
		case <-woken:
			tell = false
			alive = s.pause(ctx)
		case <-beat.C:
			tell = true
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-s.h.stopping.Done():
			return
		}
	}
}

// pause waits until the next read is due; false means that the stream ends.
func (s *stream) pause(ctx context.Context) bool {
	timer := time.NewTimer(streamPause - time.Since(s.looked))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.h.stopping.Done():
		return false
	}
}

// place returns a comment line with the cursor up to which the stream has read, even if no event was for the reader.
func (s *stream) place(comment string) []byte {
	return fmt.Appendf(nil, ": %s\nid: %d\n\n", comment, s.at)
}

// allowed reads the rights of the reader again when they are due; false means that the reader has none now. The reader
// gets the error when it reconnects.
func (s *stream) allowed(ctx context.Context) bool {
	now := s.h.Now()
	if now.Sub(s.checked).Abs() < recheck {
		return true
	}
	if s.h.identify(ctx, s.c) != nil {
		return false
	}
	s.checked = now
	s.reader = eventReader{h: s.h, who: &s.c.Principal}
	s.filter.Within = s.reader.eventsWithin(s.filter.Namespaces)
	return true
}

// catchUp sends all new events; false means that the stream ends.
func (s *stream) catchUp(ctx context.Context) bool {
	for ctx.Err() == nil && s.h.stopping.Err() == nil && s.allowed(ctx) {
		s.looked = time.Now()
		events, next, err := s.h.Events.EventsAfter(ctx, s.at, s.filter, streamBatch)
		var views []v1.Event
		if err == nil {
			views, err = s.reader.views(ctx, events)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.h.Log.ErrorContext(ctx, "stream of events ended", "request", s.c.Audit.RequestID, "error", err)
			}
			return false
		}
		if next == s.at {
			return true
		}
		var out bytes.Buffer
		for _, v := range views {
			data, err := json.Marshal(v)
			if err != nil { // not reached: a plain struct always encodes
				continue
			}
			fmt.Fprintf(&out, "id: %d\nevent: %s\ndata: %s\n\n", v.Cursor, lineOf(v.Kind), data)
		}
		s.at = next
		if out.Len() > 0 && !s.send(out.Bytes()) {
			return false
		}
	}
	return false
}

// lineOf returns the kind of an event as a line of the stream. Kinds come from agents: a kind with a line break could
// forge another event.
func lineOf(kind string) string {
	if kind == "" || strings.ContainsFunc(kind, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) {
		return "other"
	}
	return kind
}

// send writes to the reader; false means that the reader is gone or too slow.
func (s *stream) send(data []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(streamWrite)) // a test recorder has no deadline
	if _, err := s.c.w.Write(data); err != nil {
		return false
	}
	return s.control.Flush() == nil
}

// listAudit lists the audit log, newest first. A caller who is not an administrator gets only its own rows.
func (h *Handler) listAudit(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.AuditFilter{
		Since: p.time("since"), Until: p.time("until"), App: p.text("app"), User: p.text("user"),
		Action:    p.text("action"),
		RequestID: p.text("request_id"), Allowed: p.flag("allowed"), Remote: p.text("address"),
	}
	if changes := p.flag("changes"); changes != nil && *changes {
		f.Without = h.reads()
	}
	if !c.Principal.ReadsAudit() {
		if f.App != "" && f.App != c.Principal.App {
			return reply{}, problemf(http.StatusForbidden, "%s is neither an administrator nor an auditor, and sees only the records of app %s",
				c.Principal.Who(), edge.Clip(c.Principal.App))
		}
		f.App = c.Principal.App
	}
	var err error
	if f.Limit, err = p.page(&f.Before); err != nil {
		return reply{}, err
	}
	rows, err := h.History.ListAudit(ctx, f)
	if err != nil {
		return reply{}, failure("list the record of calls", err)
	}
	c.Audit.Targets = len(rows)
	return ok(pageOfRows(c, rows, f.Limit, viewAudit, func(r store.AuditRow) any { return r.Mark() }))
}

func viewAudit(r store.AuditRow) v1.AuditRow {
	var detail struct {
		Console *edge.Console `json:"console"`
	}
	if json.Unmarshal(r.Detail, &detail) != nil { // most calls have no detail
		detail.Console = nil
	}
	via, reason := v1.ViaAPI, ""
	switch {
	case detail.Console != nil:
		via, reason = v1.ViaConsole, detail.Console.Reason
	case strings.HasPrefix(r.Action, "console."):
		via = v1.ViaConsole
	case r.Remote == "socket":
		via = v1.ViaSocket
	}
	return v1.AuditRow{
		Via: via, Reason: reason,
		At: r.At, App: r.App, User: r.User, Remote: r.Remote, RequestID: r.RequestID, Action: r.Action,
		Target:  r.Target,
		Targets: r.Targets, Allowed: r.Allowed, Code: r.Code, Message: r.Message, Detail: r.Detail,
	}
}

// addChanges adds the changes of an earlier batch to a revision: equal ones are one, on more hosts.
func addChanges(to *v1.Revision, changes []v1.RevisionChange) {
	for _, c := range changes {
		same := func(o v1.RevisionChange) bool {
			return o.Process == c.Process && o.Action == c.Action && slices.Equal(o.Fields, c.Fields)
		}
		if i := slices.IndexFunc(to.Changes, same); i >= 0 {
			to.Changes[i].Hosts += c.Hosts
		} else {
			to.Changes = append(to.Changes, c)
		}
	}
}
