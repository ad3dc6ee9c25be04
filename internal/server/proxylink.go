package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"drover/internal/fabric"
	"drover/internal/server/apiv1"
	"drover/internal/server/audit"
	"drover/internal/server/depot"
	"drover/internal/server/enrol"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// relayWorkers is how many hosts can join at the same time through one proxy.
const relayWorkers = 4

// maxBuild is the stored length of the version that a proxy reports, in bytes.
const maxBuild = 128

// proxyLink is the server's side of the proxies: their requests, and the reports of their agents.
type proxyLink struct {
	*proxies
	conn *fabric.Conn
	// served has the open subscriptions: the subject and the function that ends it.
	served map[string]func()
}

// serveProxies answers the proxies over a link until ctx ends.
func (s *Server) serveProxies(ctx context.Context, conn *fabric.Conn) error {
	if s.joining == nil {
		<-ctx.Done()
		return nil
	}
	l := &proxyLink{proxies: s.joining.proxies, conn: conn, served: map[string]func(){}}
	defer l.stop()
	tick := time.NewTicker(proxiesEvery)
	defer tick.Stop()
	for told := l.latest(); ; {
		//nolint:contextcheck // stop ends the subscriptions
		if err := l.arrange(); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "cannot listen to proxies", "error", err)
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
		if err := l.load(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "cannot read the register of proxies", "error", err)
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
func (l *proxyLink) wanted() map[string]subscription {
	all := map[string]subscription{}
	for _, p := range l.all() {
		all[wire.ReportsOf(p.Area)] = subscription{serverQueue, reportWorkers, l.s.report, true}
		all[wire.PackagesOf(p.Area)] = subscription{serverQueue, depot.Workers, l.s.depot.Answer, true}
		all[wire.ProxyJoinSubject(p.Area, p.Key)] = subscription{
			serverQueue, relayWorkers,
			func(ctx context.Context, _ string, data []byte) []byte {
				return l.answer(l.join(ctx, p, data))
			}, false,
		}
		all[wire.ProxyRefreshSubject(p.Area, p.Key)] = subscription{
			serverQueue, 1,
			func(ctx context.Context, _ string, data []byte) []byte {
				return l.proven(data, l.answer(l.refresh(ctx, p, data)))
			}, false,
		}
		// Every server receives every beat, because each server reports which proxies are online.
		all[wire.ProxyBeatSubject(p.Area, p.Key)] = subscription{
			"", 1,
			func(_ context.Context, _ string, data []byte) []byte {
				return l.answer(l.beat(p, data))
			}, false,
		}
	}
	return all
}

// arrange subscribes to new subjects, and unsubscribes from old ones.
func (l *proxyLink) arrange() error {
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

func (l *proxyLink) stop() {
	for _, stop := range l.served {
		stop()
	}
}

// publish notifies all proxies that their data has changed. A proxy that misses the notice learns of the change by the
// answer to its next beat.
func (l *proxyLink) publish(ctx context.Context) {
	for _, p := range l.all() {
		if err := l.conn.Publish(wire.ProxyNewsSubject(p.Area, p.Key), nil); err != nil {
			l.s.cfg.Log.DebugContext(ctx, "cannot notify proxy of a change", "proxy", p.Name, "error", err)
		}
	}
}

// answer encodes an answer for a proxy.
func (l *proxyLink) answer(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // not reached: a plain struct always encodes
		l.s.cfg.Log.Error("cannot encode answer to a proxy", "error", err)
		return nil
	}
	return data
}

// proven signs an answer together with the proxy's question.
func (l *proxyLink) proven(question, answer []byte) []byte {
	proof, err := l.s.joining.fabric.Prove(wire.ProvenRefresh(question, answer))
	if err != nil {
		l.s.cfg.Log.Error("cannot sign answer to a proxy", "error", err)
		return nil
	}
	return l.answer(wire.SealedRefresh{Answer: answer, Proof: l.answer(proof)})
}

func (l *proxyLink) beat(p store.Proxy, data []byte) wire.BeatAck {
	var b wire.Beat
	if err := json.Unmarshal(data, &b); err != nil {
		l.s.cfg.Log.Warn("cannot parse heartbeat of a proxy", "proxy", p.Name, "error", err)
	}
	b.Build = audit.Clip(b.Build, maxBuild)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beats[p.Key] = lastBeat{at: time.Now(), Beat: b}
	return wire.BeatAck{Version: wire.Version, Digest: l.digest}
}

func (l *proxyLink) refresh(ctx context.Context, p store.Proxy, data []byte) wire.RefreshAnswer {
	answer := wire.RefreshAnswer{Version: wire.Version}
	e, err := l.renew(ctx, p, data)
	if err != nil {
		l.s.cfg.Log.ErrorContext(ctx, "cannot renew enrolment of a proxy", "proxy", p.Name, "error", err)
		answer.Error = err.Error()
		return answer
	}
	answer.Enrolment = &e
	return answer
}

func (l *proxyLink) renew(ctx context.Context, p store.Proxy, data []byte) (wire.ProxyEnrolment, error) {
	var q wire.RefreshRequest
	if err := json.Unmarshal(data, &q); err != nil {
		return wire.ProxyEnrolment{}, fmt.Errorf("cannot read request: %w", err)
	}
	if q.Version > wire.Version {
		return wire.ProxyEnrolment{}, wire.ErrVersion
	}
	// Another server may have just removed an agent, and this server may not know yet.
	if err := l.s.refreshRevoked(ctx); err != nil {
		return wire.ProxyEnrolment{}, err
	}
	return l.Issue(p, q.Certificate)
}

// join answers a host behind a proxy as the API would, and signs the answer.
func (l *proxyLink) join(ctx context.Context, p store.Proxy, data []byte) wire.RelayedAnswer {
	l.mu.Lock()
	handler := l.joins
	l.mu.Unlock()
	var q wire.RelayedJoin
	err := json.Unmarshal(data, &q)
	if err == nil && q.Version > wire.Version {
		err = wire.ErrVersion
	}
	var remote netip.Addr
	if err == nil {
		remote, err = netip.ParseAddr(q.Remote)
	}
	if err != nil || handler == nil {
		l.s.cfg.Log.WarnContext(ctx, "cannot accept a join request from a proxy", "proxy", p.Name, "error", err)
		return wire.RelayedAnswer{Version: wire.Version, Status: http.StatusServiceUnavailable}
	}
	ctx = apiv1.WithRelay(ctx, enrol.Relay{Key: p.Key, Area: p.Area})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, wire.JoinPath, bytes.NewReader(q.Request))
	if err != nil { // not reached: both are constants
		return wire.RelayedAnswer{Version: wire.Version, Status: http.StatusInternalServerError}
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
	proof, err := l.s.joining.fabric.Prove(wire.Proven(q.Request, w.answer.Body))
	if err == nil {
		w.answer.Header[wire.ProofHeader] = string(l.answer(proof))
	} else {
		l.s.cfg.Log.ErrorContext(ctx, "cannot sign answer to a host", "proxy", p.Name, "error", err)
	}
	return w.answer
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
