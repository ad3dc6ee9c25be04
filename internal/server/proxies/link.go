package proxies

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"drover/internal/depot"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/server/api/install"
	"drover/internal/server/audit"
	"drover/internal/server/enrol"
	"drover/internal/server/pairs"
	"drover/internal/server/reports"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const (
	// relayWorkers is how many hosts can join at the same time through one proxy.
	relayWorkers = 4
	// pieceWorkers is how many questions of one proxy about packages may wait for their answers at the same time.
	pieceWorkers = 64
)

// maxBuild is the stored length of the version that a proxy reports, in bytes.
const maxBuild = 128

// link is the connection to the proxies: their requests, and the reports of their agents.
type link struct {
	*Register
	conn *fabric.Conn
	// served has the open subscriptions: the subject and the function that ends it.
	served map[string]func()
}

// Serve answers the proxies over a connection until ctx ends. It may be called on nil: then there are no proxies.
func (p *Register) Serve(ctx context.Context, conn *fabric.Conn) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	l := &link{Register: p, conn: conn, served: map[string]func(){}}
	defer l.stop()
	tick := time.NewTicker(proxiesEvery)
	defer tick.Stop()
	for told := l.latest(); ; {
		//nolint:contextcheck // stop ends the subscriptions
		if err := l.arrange(); err != nil && ctx.Err() == nil {
			p.cfg.Log.WarnContext(ctx, "cannot listen to proxies", "error", err)
		}
		if now := l.latest(); now != told {
			told = now
			l.publish(ctx)
		}
		select {
		case <-l.changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := l.Load(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.WarnContext(ctx, "cannot read the register of proxies", "error", err)
		}
	}
}

// subscription describes the handling of a subject.
type subscription struct {
	queue   string
	workers int
	answer  fabric.Handler
	// each limits the requests of one agent to one at a time.
	each bool
}

// wanted returns the subjects to subscribe to. A leaf node receives nothing beyond its rights, so each area and each
// proxy needs its own subscription.
func (l *link) wanted() map[string]subscription {
	all := map[string]subscription{}
	for _, p := range l.all() {
		all[wire.ReportsOf(p.Area)] = subscription{wire.ServersQueue, reports.Workers, l.cfg.Reports, true}
		all[wire.PackagesOf(p.Area)] = subscription{wire.ServersQueue, depot.Workers, l.cfg.Packages, true}
		all[wire.ProxyPackagesSubject(p.Area, p.Key)] = subscription{
			wire.ServersQueue, pieceWorkers, l.cfg.Packages, false,
		}
		all[wire.ProxyJoinSubject(p.Area, p.Key)] = subscription{
			wire.ServersQueue, relayWorkers, l.serve(p, frame.Join, frame.Joined, l.join), false,
		}
		all[wire.ProxyRefreshSubject(p.Area, p.Key)] = subscription{
			wire.ServersQueue, 1, l.serve(p, frame.Refresh, frame.Enrolment, l.refresh), false,
		}
		// Every server receives every beat, because each server reports which proxies are online.
		all[wire.ProxyBeatSubject(p.Area, p.Key)] = subscription{
			"", 1, l.serve(p, frame.Beat, frame.Digest, l.beat), false,
		}
	}
	return all
}

// arrange subscribes to new subjects, and unsubscribes from old ones.
func (l *link) arrange() error {
	wanted := l.wanted()
	for name, stop := range l.served {
		if _, ok := wanted[name]; !ok {
			stop()
			delete(l.served, name)
		}
	}
	for name, w := range wanted {
		if l.served[name] != nil {
			continue
		}
		serve := l.conn.Serve
		if w.each {
			serve = l.conn.ServeEach
		}
		stop, err := serve(name, w.queue, w.workers, w.answer)
		if err != nil {
			return err
		}
		l.served[name] = stop
	}
	return nil
}

func (l *link) stop() {
	for _, stop := range l.served {
		stop()
	}
}

// publish notifies all proxies that their data has changed. A proxy that misses the notice learns of the change by the
// answer to its next beat.
func (l *link) publish(ctx context.Context) {
	for _, p := range l.all() {
		pair, err := l.pairs.Present(ctx, p.Key)
		var notice []byte
		if err == nil {
			notice, _, err = pair.Seal(frame.Change, l.cfg.Now(), frame.Nonce{}, nil)
		}
		if err == nil {
			err = l.conn.Publish(wire.ProxyNewsSubject(p.Area, p.Key), notice)
		}
		if err != nil {
			l.cfg.Log.DebugContext(ctx, "cannot notify proxy of a change", "proxy", p.Name, "error", err)
		}
	}
}

// question is what a proxy asks, and when it has sealed that.
type question struct {
	from   store.Proxy
	body   []byte
	sealed time.Time
}

// serve returns the handler of the questions of a proxy: frames of kind asks, answered by frames of kind answers.
func (l *link) serve(p store.Proxy, asks, answers frame.Kind,
	handle func(ctx context.Context, q question) (answer any, err error),
) fabric.Handler {
	return func(ctx context.Context, _ string, data []byte) []byte {
		pair, about, answer, err := l.handle(ctx, p, asks, data, handle)
		if err != nil {
			l.cfg.Log.WarnContext(ctx, "rejected message of a proxy", "proxy", p.Name, "expected", asks, "error", err)
			return pairs.Hint(err)
		}
		reply, _, err := pair.Seal(answers, l.cfg.Now(), about, answer)
		if err != nil {
			l.cfg.Log.ErrorContext(ctx, "cannot seal answer to a proxy", "proxy", p.Name, "error", err)
			return nil
		}
		return reply
	}
}

// handle opens a question of a proxy, and returns the body of the answer, with the pair and the nonce of the question.
func (l *link) handle(ctx context.Context, p store.Proxy, asks frame.Kind, data []byte,
	handle func(ctx context.Context, q question) (answer any, err error),
) (pair *frame.Pair, about frame.Nonce, answer []byte, err error) {
	head, err := frame.Read(data)
	if err != nil {
		return nil, about, nil, err
	}
	if pair, err = l.pairs.For(ctx, p.Key, head.Pair); err != nil {
		return nil, about, nil, err
	}
	head, body, err := pair.Open(asks, data, frame.Nonce{})
	if err != nil {
		return nil, about, nil, err
	}
	if now, known := l.byKey(p.Key); known { // it may have joined again, under another name
		p = now
	}
	told, err := handle(ctx, question{from: p, body: body, sealed: head.Time})
	if err != nil {
		return nil, about, nil, err
	}
	answer, err = json.Marshal(told)
	return pair, head.Nonce, answer, err
}

// recent rejects a question that was sealed too long ago: somebody may have kept it.
func (l *link) recent(q question) error {
	if q.sealed.Sub(l.cfg.Now()).Abs() > frame.Width {
		return frame.ErrStale
	}
	return nil
}

// beat answers a beat, which tells a proxy the clock of the fleet. Only a beat that was sealed after the last one, and
// not long ago, shows that the proxy is online.
func (l *link) beat(_ context.Context, q question) (any, error) {
	var b wire.Beat
	if err := json.Unmarshal(q.body, &b); err != nil {
		return nil, fmt.Errorf("cannot read heartbeat: %w", err)
	}
	b.Build = audit.Clip(b.Build, maxBuild)
	stale := l.recent(q)
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.beats[q.from.Key].at
	if stale == nil && (q.sealed.After(last) || last.Sub(now) > frame.Width) { // or the clock was set back
		l.beats[q.from.Key] = lastBeat{at: q.sealed, Beat: b}
	}
	return wire.BeatAck{Version: wire.Version, Digest: l.digest}, nil
}

// refresh answers with the enrolment of the proxy.
func (l *link) refresh(ctx context.Context, q question) (any, error) {
	if err := l.recent(q); err != nil {
		return nil, err
	}
	answer := wire.RefreshAnswer{Version: wire.Version}
	e, err := l.renew(ctx, q)
	if err != nil {
		l.cfg.Log.ErrorContext(ctx, "cannot renew enrolment of a proxy", "proxy", q.from.Name, "error", err)
		answer.Error = err.Error()
		return answer, nil
	}
	answer.Enrolment = &e
	return answer, nil
}

func (l *link) renew(ctx context.Context, q question) (wire.ProxyEnrolment, error) {
	var r wire.RefreshRequest
	if err := json.Unmarshal(q.body, &r); err != nil {
		return wire.ProxyEnrolment{}, fmt.Errorf("cannot read request: %w", err)
	}
	if r.Version > wire.Version {
		return wire.ProxyEnrolment{}, wire.ErrVersion
	}
	if len(r.Sealing) > 0 {
		if err := l.reseal(ctx, q.from.Key, r.Sealing); err != nil {
			return wire.ProxyEnrolment{}, fmt.Errorf("cannot take the proxy's new sealing key: %w", err)
		}
	}
	// Another server may have just removed an agent, and this server may not know yet.
	if err := l.cfg.Removed(ctx); err != nil {
		return wire.ProxyEnrolment{}, err
	}
	return l.Issue(q.from, r.Certificate)
}

// join answers a host behind a proxy as the API would, and signs the answer for the host.
func (l *link) join(ctx context.Context, q question) (any, error) {
	if err := l.recent(q); err != nil {
		return nil, err
	}
	l.mu.Lock()
	handler := l.joins
	l.mu.Unlock()
	p := q.from
	var r wire.RelayedJoin
	err := json.Unmarshal(q.body, &r)
	if err == nil && r.Version > wire.Version {
		err = wire.ErrVersion
	}
	var remote netip.Addr
	if err == nil {
		remote, err = netip.ParseAddr(r.Remote)
	}
	if err != nil || handler == nil {
		l.cfg.Log.WarnContext(ctx, "cannot accept a join request from a proxy", "proxy", p.Name, "error", err)
		return wire.RelayedAnswer{Version: wire.Version, Status: http.StatusServiceUnavailable}, nil
	}
	ctx = install.WithRelay(ctx, enrol.Relay{Key: p.Key, Area: p.Area})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, wire.JoinPath, bytes.NewReader(r.Request))
	if err != nil { // not reached: both are constants
		return nil, err
	}
	// the address goes into the audit log, and a zone may have any length
	req.RemoteAddr = net.JoinHostPort(remote.WithZone("").String(), "0")
	req.Header.Set("Content-Type", "application/json")
	w := &responseRecorder{header: http.Header{}, answer: wire.RelayedAnswer{
		Version: wire.Version, Status: http.StatusOK,
		Header: map[string]string{},
	}}
	handler.ServeHTTP(w, req)
	for _, name := range []string{"Content-Type", "Retry-After", "X-Request-Id"} {
		if value := w.header.Get(name); value != "" {
			w.answer.Header[name] = value
		}
	}
	if err := l.sign(r.Request, &w.answer); err != nil {
		l.cfg.Log.ErrorContext(ctx, "cannot sign answer to a host", "proxy", p.Name, "error", err)
	}
	return w.answer, nil
}

// sign signs an answer for the host, which has no pair yet.
func (l *link) sign(request []byte, answer *wire.RelayedAnswer) error {
	proof, err := l.cfg.Authority.Prove(wire.Proven(request, answer.Body))
	if err != nil {
		return err
	}
	text, err := json.Marshal(proof)
	answer.Header[wire.ProofHeader] = string(text)
	return err
}

// responseRecorder holds an answer of the API that does not go over HTTP.
type responseRecorder struct {
	header http.Header
	answer wire.RelayedAnswer
}

// Header implements http.ResponseWriter.
func (r *responseRecorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *responseRecorder) WriteHeader(status int) { r.answer.Status = status }

// Write implements http.ResponseWriter.
func (r *responseRecorder) Write(data []byte) (int, error) {
	r.answer.Body = append(r.answer.Body, data...)
	return len(data), nil
}
