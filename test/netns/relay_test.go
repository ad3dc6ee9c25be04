package netns_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"drover/internal/test/harness"
	"drover/test/judge"
)

// manner is how a relay treats the bytes that pass it.
type manner string

const (
	faithful  = manner("faithful")
	slow      = manner("slow")      // each piece is late
	dripping  = manner("dripping")  // a few bytes at a time
	doubling  = manner("doubling")  // some pieces come twice
	cutting   = manner("cutting")   // a piece comes in part, and nothing after it
	altering  = manner("altering")  // some pieces have a byte that was not sent
	swallowed = manner("swallowed") // some pieces do not come
)

// relay passes connections on, badly if it is told to.
type relay struct {
	listener net.Listener
	dial     func(ctx context.Context, protocol, address string) (net.Conn, error)
	to       string

	mu     sync.Mutex
	manner manner
	open   map[net.Conn]bool
}

// newRelay relays from the address to the other, on a host.
func newRelay(t testing.TB, host, from, to string) *relay {
	t.Helper()
	r := &relay{dial: dialFrom(host), to: to, manner: faithful, open: map[net.Conn]bool{}}
	err := inside(host, func() (err error) {
		r.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", from)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			in, err := r.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(in) })
		}
	})
	t.Cleanup(func() {
		_ = r.listener.Close()
		r.sever()
		serving.Wait()
	})
	return r
}

func (r *relay) serve(in net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := r.dial(ctx, "tcp", r.to)
	if err != nil {
		_ = in.Close()
		return
	}
	r.mu.Lock()
	r.open[in], r.open[out] = true, true
	r.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { r.pass(out, in) })
	ways.Go(func() { r.pass(in, out) })
	ways.Wait()
	r.mu.Lock()
	delete(r.open, in)
	delete(r.open, out)
	r.mu.Unlock()
}

// pass copies until either end is closed, and then closes both.
func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !r.forward(to, buffer[:n]) {
			return
		}
	}
}

// forward sends a piece in the relay's manner and reports whether the connection goes on.
func (r *relay) forward(to net.Conn, piece []byte) bool {
	send := func(p []byte) (sent bool) {
		_, err := to.Write(p)
		return err == nil
	}
	now := rand.IntN(8) == 0
	switch m := r.behaviour(); {
	case m == slow:
		<-time.After(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	case m == dripping:
		for len(piece) > 7 && send(piece[:7]) {
			piece = piece[7:]
		}
	case m == doubling && now:
		piece = append(piece, piece...)
	case m == cutting && now:
		send(piece[:len(piece)/2])
		return false
	case m == altering && now:
		piece[rand.IntN(len(piece))] ^= 0x40
	case m == swallowed && now:
		return true
	}
	return send(piece)
}

func (r *relay) behaviour() manner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manner
}

func (r *relay) behave(m manner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manner = m
}

// sever ends every connection.
func (r *relay) sever() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close()
	}
}

// TestI1_I2_I3_BadLink has operations carried out over a link that is late, doubles, alters, swallows and cuts off what
// it is given: what is answered is true, and no command runs twice.
func TestI1_I2_I3_BadLink(t *testing.T) {
	r := newRig(t)
	for _, m := range []manner{slow, dripping, doubling, cutting, altering, swallowed} {
		p := r.daemon("near", "link-"+string(m))
		r.does(p, judge.Start)
		r.relay.behave(m)
		tasks := make([]string, 5)
		for i := range tasks {
			tasks[i] = r.submit(p, judge.Reload)
		}
		r.relay.sever() // the connection of before would keep out of it what is still to come
		answered := 0
		for _, task := range tasks {
			if got := r.outcome(p, task); got.Code == 0 {
				answered++
			} else if got.Code != 117 && got.Code != 65535 {
				t.Errorf("link %s: %d %s", m, got.Code, got.Msg)
			}
		}
		if ran := judge.Ran(p, "reload"); ran < answered || ran > len(tasks) {
			t.Errorf("%slink %s: of %d operations %d were answered with 0, and the command ran %d times",
				harness.MoreThan(len(tasks), ran), m, len(tasks),
				answered, ran)
		}
		if (m == slow || m == dripping) && answered != len(tasks) {
			t.Errorf("link %s, which loses nothing: %d of %d were carried out", m, answered, len(tasks))
		}
		r.relay.behave(faithful)
		r.relay.sever()
		if seen := r.settled(p); !seen.Hosted || seen.PID <= 1 || judge.Ran(p, "start") != 1 {
			t.Errorf("link %s: it is left as %+v, started %d times", m, seen, judge.Ran(p, "start"))
		}
		r.does(p, judge.Stop)
		t.Logf("link %s: %d of %d were answered with 0", m, answered, len(tasks))
	}
	r.Online(r.host("near"))
}
