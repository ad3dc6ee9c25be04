package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/frame"
	"drover/internal/process"
	"drover/internal/wire"
	"drover/test/bench/lab"
)

func bareSubject(i int) string { return "bare." + strconv.Itoa(i) }

// beatSubject is where peers say that they are there, and beatEvery how often each does, as agents at rest do.
const (
	beatSubject = "beats"
	beatEvery   = time.Minute
)

// barePeers are connections that answer requests.
type barePeers struct {
	dir, url     string
	first, count int
	answer       []byte

	mu    sync.Mutex
	conns []*nats.Conn
}

// runBarePeers is the stage of a process of peers: the directory of the authority, the URL, the first number, how many
// there are, and how many bytes each answers with.
func runBarePeers(args []string) error {
	if len(args) != 5 {
		return errors.New("five arguments are needed")
	}
	debug.SetGCPercent(thriftless)
	p := &barePeers{dir: args[0], url: args[1]}
	var size int
	for i, n := range []*int{&p.first, &p.count, &size} {
		var err error
		if *n, err = strconv.Atoi(args[2+i]); err != nil {
			return err
		}
	}
	p.answer = make([]byte, size)
	return lab.Obey(context.Background(), map[string]func(context.Context) (string, error){
		"connect": p.connect, "beat": p.beat,
	})
}

// beat has every peer say that it is there from now on, one after the other, and wait for the answer.
func (p *barePeers) beat(context.Context) (string, error) {
	pause := time.NewTicker(beatEvery / time.Duration(p.count))
	beat := []byte(`{"version":1}`)
	go func() {
		for i := 0; ; i++ {
			<-pause.C
			conn := p.conns[i%len(p.conns)]
			// As many beats are under way as take longer than a pause.
			go func() { _, _ = conn.Request(beatSubject, beat, patience) }()
		}
	}()
	return "", nil
}

// connect makes the connections and listens on each.
func (p *barePeers) connect(context.Context) (string, error) {
	var next atomic.Int64
	errs := make([]error, joiners)
	var workers sync.WaitGroup
	for w := range joiners {
		workers.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= p.count {
					return
				}
				errs[w] = p.listen(p.first + i)
			}
		})
	}
	workers.Wait()
	return "", errors.Join(errs...)
}

func (p *barePeers) listen(i int) error {
	conn, err := lab.BareConn(p.dir, p.url)
	if err != nil {
		return err
	}
	// a lost answer is missed by who has asked
	if _, err := conn.Subscribe(bareSubject(i), func(m *nats.Msg) { _ = m.Respond(p.answer) }); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
	return conn.Flush()
}

// exchange is how many bytes go to an agent and come back from it in one operation that asks how a process is: the
// order, and the receipt with the answer.
type exchange struct{ down, up int }

// exchanged takes the sizes from messages as drover makes them.
func exchanged(spec *process.Spec) (exchange, error) {
	item := "12345-1234567890123456789"
	order, err := wire.Manifest{Issued: time.Now(), Expires: time.Now(), Orders: []wire.Order{{
		Item: item, Process: process.ID{Namespace: namespace, Name: procName}, Op: process.Query, Spec: spec,
		Actor: process.Actor{App: lab.AppCode, User: lab.AppCode},
	}}}.Encode()
	if err != nil {
		return exchange{}, err
	}
	outcome := process.Outcome{Text: process.Success, Status: &process.Status{
		ProcName: procName, Instance: process.Instance{PID: -1}, ReportedAt: time.Now().Unix(),
		Message: "no process is in " + spec.PIDFile,
	}}
	receipt, err := json.Marshal(wire.Receipt{
		Version: wire.Version,
		Answers: map[string]process.Outcome{item: outcome},
	})
	if err != nil {
		return exchange{}, err
	}
	return exchange{down: len(order) + frame.Overhead, up: len(receipt) + frame.Overhead}, nil
}

// bare measures bare NATS: the memory of its connections, and a request to each with the answers of all.
func (b *bench) bare(context.Context) (err error) {
	if b.bytes, err = exchanged(b.spec()); err != nil {
		return err
	}
	dir := filepath.Join(b.lab.Dir, "bare")
	srv, err := lab.Enlist(filepath.Join(b.lab.Dir, "bare-server.log"), lab.BareServerStage, dir)
	if err != nil {
		return err
	}
	defer srv.Dismiss()
	url, err := srv.Tell("listen")
	if err != nil {
		return err
	}
	empty := lab.CostOf([]int{srv.PID()})
	peers, err := b.divide(barePerProcess, func(name string, first, count int) (*lab.Member, error) {
		return lab.Enlist(filepath.Join(b.lab.Dir, name+".log"), barePeersStage, dir, url, strconv.Itoa(first),
			strconv.Itoa(count), strconv.Itoa(b.bytes.up))
	}, "peers")
	defer peers.Dismiss()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := peers.Tell("connect"); err != nil {
		return err
	}
	took := time.Since(began)
	b.floor.connect = took.Seconds()
	full := lab.CostOf([]int{srv.PID()})
	b.floor.connectCPU = (full.CPU - empty.CPU).Seconds()
	b.report.Note("bare NATS: %d TLS connections in %.1f s, server CPU %.1f s, %d at a time in each process", b.n,
		took.Seconds(), (full.CPU - empty.CPU).Seconds(), joiners)
	conn, err := lab.BareConn(dir, url)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range b.rounds {
		before := lab.CostOf([]int{srv.PID()}).CPU
		took, err := b.ask(conn)
		if err != nil {
			return err
		}
		b.floor.ask = append(b.floor.ask, took.Seconds())
		b.floor.askCPU = append(b.floor.askCPU, (lab.CostOf([]int{srv.PID()}).CPU - before).Seconds())
	}
	// nobody waits for it
	if _, err := conn.Subscribe(beatSubject, func(m *nats.Msg) { _ = m.Respond([]byte(`{"version":1}`)) }); err != nil {
		return err
	}
	if err := peers.Tell("beat"); err != nil {
		return err
	}
	lab.Pause(b.window / settlePart)
	b.floor.idle = lab.UseOf([]int{srv.PID()}, b.window).Percent
	b.floor.memory = (lab.CostOf([]int{srv.PID()}).Heap - empty.Heap) * 1000 / float64(b.n)
	return nil
}

// ask sends a request to every peer and waits for every answer.
func (b *bench) ask(conn *nats.Conn) (time.Duration, error) {
	inbox := conn.NewInbox()
	answers := make(chan struct{})
	left := b.n
	sub, err := conn.Subscribe(inbox, func(*nats.Msg) {
		if left--; left == 0 {
			close(answers)
		}
	})
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection goes with it
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return 0, err
	}
	request := make([]byte, b.bytes.down)
	began := time.Now()
	for i := range b.n {
		if err := conn.PublishRequest(bareSubject(i), inbox, request); err != nil {
			return 0, err
		}
	}
	select {
	case <-answers:
		return time.Since(began), nil
	case <-time.After(patience):
		return 0, io.ErrUnexpectedEOF
	}
}

// barePerProcess is how many peers are in a process: each has one descriptor.
const barePerProcess = 10_000

// divide starts the members that b.n agents or peers take, per of them in each.
func (b *bench) divide(per int, start func(name string, first, count int) (*lab.Member, error), kind string) (lab.Crew, error) {
	var all lab.Crew
	for first := 0; first < b.n; first += per {
		m, err := start(fmt.Sprintf("%s-%d", kind, len(all)), first, min(per, b.n-first))
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}
