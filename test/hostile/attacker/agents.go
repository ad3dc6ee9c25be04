package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drover/internal/agent"
	"drover/internal/agent/admission"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// host is somebody who holds the key of an agent.
type host struct {
	number    int
	key       nkeys.KeyPair
	public    string
	enrolment wire.Enrolment
	pair      *frame.Pair
	random    *rand.Rand
	done      *tally

	conn    *nats.Conn
	session string
	reports int64
	events  uint64
	// incarnation is that of the database, as the server has named it.
	incarnation string
}

// agents join, and are many hosts then.
func agents(ctx context.Context, p plan, done *tally) (begin func(), err error) {
	hosts := make([]*host, p.Many)
	for i := range hosts {
		h := &host{number: i, random: rand.New(rand.NewPCG(p.Seed, uint64(i))), done: done}
		dir := filepath.Join(p.Dir, strconv.Itoa(i))
		ip := fmt.Sprintf("10.66.%d.%d", i>>8, i&255)
		if h.enrolment, err = admission.Join(ctx, admission.Config{
			Dir: dir, Server: p.URL, Token: p.Token, IP: ip,
			Build: "hostile",
		}); err != nil {
			return nil, err
		}
		if h.key, err = agent.OwnKey(dir); err != nil {
			return nil, err
		}
		if h.public, err = h.key.PublicKey(); err != nil {
			return nil, err
		}
		if h.pair, err = harness.AgentPair(dir, h.public, h.enrolment); err != nil {
			return nil, err
		}
		hosts[i] = h
	}
	return func() {
		for _, h := range hosts {
			go h.attack(ctx)
		}
	}, nil
}

// attack does one thing after another. What is answered is nothing to it.
func (h *host) attack(ctx context.Context) {
	ways := []struct {
		name string
		do   func() error
	}{
		{"bombs", h.bomb},
		{"heavy reports", h.heavy},
		{"floods of events", h.flood},
		{"made-up processes", h.processes},
		{"introductions", h.introduce},
		{"outcomes of nothing", h.outcomes},
		{"forbidden subjects", h.forbidden},
		{"garbage", h.garbage},
		{"new connections", h.reconnect},
	}
	for ctx.Err() == nil {
		if h.conn == nil || h.conn.IsClosed() {
			if err := h.reconnect(); err != nil {
				h.done.add("connections that failed")
				continue
			}
			_ = h.introduce()
		}
		way := ways[h.random.IntN(len(ways))]
		if err := way.do(); err != nil {
			h.done.add(way.name + " that failed")
			continue
		}
		h.done.add(way.name)
	}
}

func (h *host) reconnect() (err error) {
	if h.conn != nil {
		h.conn.Close()
	}
	cloud := strconv.Itoa(h.enrolment.Cloud)
	h.conn, err = nats.Connect(h.enrolment.URLs[0], nats.Secure(careless()), nats.TLSHandshakeFirst(),
		nats.NoReconnect(), nats.Timeout(30*time.Second),
		nats.CustomInboxPrefix(fabric.InboxPrefix(cloud, h.public)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.UserJWT(func() (string, error) { return h.enrolment.JWT, nil }, h.key.Sign))
	return err
}

// send seals a report and sends it; where asked, it waits for the answer.
func (h *host) send(report []byte, wait bool) error {
	data, nonce, err := h.pair.Seal(frame.Report, time.Now(), frame.Nonce{}, report)
	if err != nil {
		return err
	}
	subject := wire.ReportSubject(h.enrolment.Cloud, h.public)
	if wait {
		answer, err := h.conn.Request(subject, data, 5*time.Second)
		if err == nil {
			h.learn(answer.Data, nonce)
		}
		return err
	}
	if err := h.conn.PublishRequest(subject, h.conn.NewRespInbox(), data); err != nil {
		return err
	}
	return h.conn.FlushTimeout(5 * time.Second)
}

// learn takes the incarnation of the database from an answer: reports for another one do not count.
func (h *host) learn(answer []byte, nonce frame.Nonce) {
	var ack wire.ReportAck
	if _, text, err := h.pair.Open(frame.Ack, answer, nonce); err == nil && json.Unmarshal(text, &ack) == nil {
		h.incarnation = ack.Incarnation
	}
}

// tell sends a report as the next one of a session.
func (h *host) tell(r wire.Report, wait bool) error {
	h.reports++
	r.Version, r.Session, r.Number, r.At = wire.Version, h.session, h.reports, time.Now().UnixMilli()
	r.Incarnation, r.Whole = h.incarnation, r.Hello == nil
	data, err := wire.EncodeReport(r, r.Events)
	if err != nil {
		return err
	}
	return h.send(data, wait)
}

// bomb sends few bytes that would take much memory.
func (h *host) bomb() error {
	parts := [][2]string{
		{"{}\n" + `{"breach":{"scores":[{}`, `]}}`},
		{`{"version":1,"observed":[{"status":{"runs":[{}`, `]}}]}`},
		{`{"version":1,"hello":{"disk":{"records":{"":{}`, `}}}}`},
		{`{"version":1,"x":` + strings.Repeat("[", 5000) + `0`, strings.Repeat("]", 5000) + `}`},
	}[h.random.IntN(4)]
	return h.send([]byte(parts[0]+strings.Repeat(",{}", wire.MaxReport/3-8000)+parts[1]), false)
}

func (h *host) event(text string) []byte {
	h.events++
	line, _ := json.Marshal(process.Event{
		Stream: h.session, Seq: h.events, At: time.Now().UnixMilli(), Process: process.ID{Namespace: "evil", Name: "p"},
		Kind: process.EventExited, Output: text, Cause: process.Cause{Text: text, Evidence: []string{text}},
	})
	return line
}

// heavy sends as long a report as is taken.
func (h *host) heavy() error {
	var r wire.Report
	for range 400 {
		r.Events = append(r.Events, h.event(strings.Repeat("x", 3000)))
	}
	return h.tell(r, true)
}

func (h *host) flood() error {
	var r wire.Report
	for range 1000 {
		r.Events = append(r.Events, h.event(""))
	}
	return h.tell(r, true)
}

func (h *host) processes() error {
	var r wire.Report
	for i := range 500 {
		id := process.ID{Namespace: "evil", Name: fmt.Sprint(h.random.Uint32())}
		r.Observed = append(r.Observed, wire.Observation{
			Process: id, Status: process.Status{
				Known: true, Hosted: true, Revision: uint64(i + 1), State: "running",
				Message: strings.Repeat("x", 1000),
			},
		})
	}
	return h.tell(r, true)
}

func (h *host) introduce() error {
	h.session, h.reports = fmt.Sprintf("s%d", time.Now().UnixNano()), 0
	return h.tell(wire.Report{Hello: &wire.Hello{
		Cloud: h.enrolment.Cloud, IP: h.enrolment.IP,
		Build: strings.Repeat("hostile", 1000),
	}}, true)
}

func (h *host) outcomes() error {
	var r wire.Report
	for range 1000 {
		r.Progress = append(r.Progress, wire.Progress{Item: fmt.Sprint(h.random.Uint64())})
	}
	return h.tell(r, true)
}

func (h *host) forbidden() error {
	for range 100 {
		if err := h.conn.Publish("drover.v1."+strings.Repeat("x", h.random.IntN(2000))+".orders",
			[]byte("x")); err != nil {
			return err
		}
	}
	if _, err := h.conn.SubscribeSync(fmt.Sprintf("drover.v1.%d.>", h.random.IntN(100))); err != nil {
		return err
	}
	return h.conn.FlushTimeout(5 * time.Second)
}

func (h *host) garbage() error {
	garbage := make([]byte, 100+h.random.IntN(100_000))
	for i := range garbage {
		garbage[i] = byte(h.random.Uint32())
	}
	for range 20 {
		if err := h.conn.PublishRequest(wire.ReportSubject(h.enrolment.Cloud, h.public), h.conn.NewRespInbox(),
			garbage); err != nil {
			return err
		}
	}
	return h.conn.FlushTimeout(5 * time.Second)
}
