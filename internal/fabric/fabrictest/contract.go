// Package fabrictest holds the one suite that every fabric passes, and Link, a fabric of goroutines without sockets.
// Link loses, repeats and delays messages, to test code that must survive that. Only tests import it.
package fabrictest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"drover/internal/fabric"
)

// Messenger is the interface of a fabric.
type Messenger interface {
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	Serve(subject, queue string, workers int, fn fabric.Handler) (stop func(), err error)
}

// Ends are the two sides of a fabric, with a subject that each of them may serve and the other may ask on.
type Ends struct {
	Server, Agent               Messenger
	ServerSubject, AgentSubject string
}

// patience bounds operations that take no time in a working fabric.
const patience = 20 * time.Second

// Run holds a fabric to the contract. open returns a fresh pair; its clean-up is open's own affair.
func Run(t *testing.T, open func(t *testing.T) Ends) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, e Ends)
	}{
		{"both sides ask and answer", bothWays},
		{"the agent is not connected", nobody},
		{"the context bounds a request", contextBounds},
		{"nil is no reply", nilIsNoReply},
		{"an empty reply is one", emptyReply},
		{"a queue shares requests", queueShares},
		{"a handler sees the subject", wildcard},
		{"large messages", large},
		{"workers bound the handlers", workersBound},
		{"stop waits for handlers", stopWaits},
		{"what has arrived is answered", stopDrains},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func echo(_ context.Context, _ string, data []byte) []byte { return append([]byte("re: "), data...) }

func serve(t *testing.T, m Messenger, subject, queue string, workers int, fn fabric.Handler) (stop func()) {
	t.Helper()
	stop, err := m.Serve(subject, queue, workers, fn)
	if err != nil {
		t.Fatalf("cannot serve %s: %v", subject, err)
	}
	t.Cleanup(stop)
	return stop
}

// ask returns the reply to a request that must succeed.
func ask(t *testing.T, m Messenger, subject, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := m.Request(ctx, subject, []byte(text))
	if err != nil {
		t.Errorf("request on %s: %v", subject, err)
	}
	return string(reply)
}

func bothWays(t *testing.T, e Ends) {
	serve(t, e.Agent, e.AgentSubject, "", 1, echo)
	serve(t, e.Server, e.ServerSubject, "servers", 1, echo)
	if got := ask(t, e.Server, e.AgentSubject, "start"); got != "re: start" {
		t.Errorf("the agent answered %q, want %q", got, "re: start")
	}
	if got := ask(t, e.Agent, e.ServerSubject, "started"); got != "re: started" {
		t.Errorf("the server answered %q, want %q", got, "re: started")
	}
}

func nobody(t *testing.T, e Ends) {
	// Without the instant answer, the request would wait for its context and end with the context's error.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := e.Server.Request(ctx, e.AgentSubject, nil); !errors.Is(err, fabric.ErrNobody) {
		t.Errorf("got error %v, want %v", err, fabric.ErrNobody)
	}
	stop := serve(t, e.Agent, e.AgentSubject, "", 1, echo)
	ask(t, e.Server, e.AgentSubject, "now")
	stop()
	if _, err := e.Server.Request(ctx, e.AgentSubject, nil); !errors.Is(err, fabric.ErrNobody) {
		t.Errorf("after stop: got error %v, want %v", err, fabric.ErrNobody)
	}
}

func contextBounds(t *testing.T, e Ends) {
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	serve(t, e.Agent, e.AgentSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		close(begun)
		<-release
		return data
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := e.Server.Request(ctx, e.AgentSubject, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func nilIsNoReply(t *testing.T, e Ends) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan struct{})
	serve(t, e.Agent, e.AgentSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		if string(data) == "after" {
			return data
		}
		close(seen)
		return nil
	})
	go func() {
		<-seen
		ask(t, e.Server, e.AgentSubject, "after") // with one worker, a reply to the first would arrive before this one
		cancel()
	}()
	if reply, err := e.Server.Request(ctx, e.AgentSubject, []byte("first")); !errors.Is(err, context.Canceled) {
		t.Errorf("got reply %q and error %v, want none and %v", reply, err, context.Canceled)
	}
}

func emptyReply(t *testing.T, e Ends) {
	serve(t, e.Agent, e.AgentSubject, "", 1, func(context.Context, string, []byte) []byte { return []byte{} })
	if got := ask(t, e.Server, e.AgentSubject, "x"); got != "" {
		t.Errorf("got %q, want an empty reply", got)
	}
}

func queueShares(t *testing.T, e Ends) {
	const requests = 200
	var mu sync.Mutex
	times := make(map[string]int)
	count := func(_ context.Context, _ string, data []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		times[string(data)]++
		return data
	}
	serve(t, e.Server, e.ServerSubject, "servers", 4, count)
	serve(t, e.Server, e.ServerSubject, "servers", 4, count)
	var asking sync.WaitGroup
	for i := range requests {
		asking.Go(func() { ask(t, e.Agent, e.ServerSubject, strconv.Itoa(i)) })
	}
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	for i := range requests {
		if n := times[strconv.Itoa(i)]; n != 1 {
			t.Errorf("request %d was handled %d times, want once", i, n)
		}
	}
}

func wildcard(t *testing.T, e Ends) {
	subject := func(_ context.Context, subject string, _ []byte) []byte { return []byte(subject) }
	serve(t, e.Server, e.ServerSubject+".>", "servers", 1, subject)
	want := e.ServerSubject + ".of.one"
	if got := ask(t, e.Agent, want, ""); got != want {
		t.Errorf("the handler saw subject %q, want %q", got, want)
	}
}

func large(t *testing.T, e Ends) {
	serve(t, e.Agent, e.AgentSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		return data[:min(len(data), fabric.MaxFromAgents)]
	})
	sent := bytes.Repeat([]byte("drover! "), 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reply, err := e.Server.Request(ctx, e.AgentSubject, sent)
	if err != nil || !bytes.Equal(reply, sent[:fabric.MaxFromAgents]) {
		t.Errorf("8 MiB came back as %d bytes and error %v", len(reply), err)
	}
	if _, err := e.Server.Request(ctx, e.AgentSubject, append(sent, '.')); !errors.Is(err, fabric.ErrTooLarge) {
		t.Errorf("one byte more: got error %v, want %v", err, fabric.ErrTooLarge)
	}
}

func workersBound(t *testing.T, e Ends) {
	const workers, requests = 3, 12
	var mu sync.Mutex
	running, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	isFull := sync.OnceFunc(func() { close(full) })
	serve(t, e.Agent, e.AgentSubject, "", workers, func(_ context.Context, _ string, data []byte) []byte {
		mu.Lock()
		running++
		if most = max(most, running); running == workers {
			isFull()
		}
		mu.Unlock()
		<-release
		mu.Lock()
		running--
		mu.Unlock()
		return data
	})
	var asking sync.WaitGroup
	for range requests {
		asking.Go(func() { ask(t, e.Server, e.AgentSubject, "x") })
	}
	select {
	case <-full:
	case <-time.After(patience):
		t.Errorf("never saw %d handlers side by side", workers)
	}
	close(release)
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	if most != workers {
		t.Errorf("%d handlers ran side by side, want %d", most, workers)
	}
}

func stopWaits(t *testing.T, e Ends) {
	begun, release := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	stop := serve(t, e.Agent, e.AgentSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		first()
		<-release
		return data
	})
	asked := make(chan string)
	go func() { asked <- ask(t, e.Server, e.AgentSubject, "x") }()
	<-begun
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	// When the subject has no subscriber, the stop has begun; the handler still runs then.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		_, err := e.Server.Request(short, e.AgentSubject, nil)
		cancel()
		if errors.Is(err, fabric.ErrNobody) || ctx.Err() != nil {
			break
		}
	}
	select {
	case <-stopped:
		t.Error("stop returned while a handler was running")
	default:
	}
	close(release)
	<-stopped
	if got := <-asked; got != "x" {
		t.Errorf("the running handler's reply came as %q, want %q", got, "x")
	}
}

func stopDrains(t *testing.T, e Ends) {
	const requests = 20
	release := make(chan struct{})
	stop := serve(t, e.Agent, e.AgentSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		<-release
		return data
	})
	// A second subscriber shows that all requests are on their way. The answer on another subject, which cannot
	// overtake them, shows that all have arrived.
	arrived := make(chan struct{}, requests)
	serve(t, e.Agent, e.AgentSubject, "", 1, func(context.Context, string, []byte) []byte {
		arrived <- struct{}{}
		return nil
	})
	serve(t, e.Agent, e.AgentSubject+".behind", "", 1, echo)
	var asking sync.WaitGroup
	for range requests {
		asking.Go(func() {
			if got := ask(t, e.Server, e.AgentSubject, "x"); got != "x" {
				t.Errorf("a request that had arrived was answered %q, want %q", got, "x")
			}
		})
	}
	for range requests {
		<-arrived
	}
	ask(t, e.Server, e.AgentSubject+".behind", "")
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	close(release)
	asking.Wait()
	<-stopped
}
