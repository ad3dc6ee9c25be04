package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/store/storeopen"
	"drover/internal/test/harness"
	"drover/internal/wire"
	"drover/test/judge"
)

// fill puts hosts with some processes each into the database of a server, as reports of agents do, and starts the server
// again.
func fill(f *harness.Fleet, hosts, each int) {
	f.T.Helper()
	must0(f.T, f.Server.Terminate())
	ctx := f.T.Context()
	db, err := storeopen.Open(ctx, filepath.Join(f.ServerDir(), "server", "drover.db"), nil, slog.New(slog.DiscardHandler))
	must0(f.T, err)
	for i := range hosts {
		key := fmt.Sprintf("K%d", i)
		must0(f.T, db.PutAgent(ctx, store.Agent{
			Key: key, Cloud: i % 4, IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Created: time.Now(), Build: "1.2.3",
		}))
		rows := make([]store.Observed, each)
		for n := range rows {
			s := process.Status{
				Known: true, Hosted: true, State: process.StateRunning, Instance: process.Instance{PID: 7}, ReportedAt: time.Now().Unix(),
			}
			if (i+n)%100 == 0 {
				s.State = process.StateGivenUp
				s.Cause = process.Cause{ID: process.CauseExitStatus, Text: "pid 12 exit status 3", Since: time.Now().UnixMilli()}
			}
			rows[n] = store.Observed{
				Agent: key, Process: process.ID{Namespace: fmt.Sprint("app-", i%20), Name: fmt.Sprint("worker-", n)},
				Spec: &process.Spec{}, Status: s,
			}
		}
		must0(f.T, db.PutObserved(ctx, store.ReportMark{Agent: key, Session: "s", Number: 1, Hello: true}, rows, nil))
	}
	must0(f.T, db.Close())
	f.StartServer()
}

// person is a browser that has a page open, without chromium: it listens for hints, and looks again as drover.js does.
type person struct {
	url    string
	client *http.Client
	// looks counts the pages it has read, and hints the hints.
	looks, hints atomic.Int64
}

func newPerson(f *harness.Fleet, link string) (*person, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	p := &person{url: f.URL, client: &http.Client{Jar: jar, Transport: f.Client.Transport}}
	_, code, _ := strings.Cut(link, "/ui/login#")
	answer, err := p.client.PostForm(f.URL+"/ui/login", url.Values{"code": {code}})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), "tiles") {
		return nil, fmt.Errorf("the sign-in is answered with %d: %w", answer.StatusCode, err)
	}
	return p, nil
}

func (p *person) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Drover-Renews", "1")
	answer, err := p.client.Do(req)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return answer, err
}

// sit has a page open until ctx ends.
func (p *person) sit(ctx context.Context, path string) error {
	stream, err := p.get(ctx, "/ui/live")
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	due := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data:") {
				p.hints.Add(1)
				select {
				case due <- struct{}{}:
				default:
				}
			}
		}
	}()
	wait := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	settle := time.NewTimer(10 * time.Second)
	defer settle.Stop()
	for {
		select {
		case <-due:
			settle.Reset(2 * time.Second) // the counts may be older than the hint
		case <-settle.C:
			settle.Reset(10 * time.Second) // a hint can be lost
		case <-ctx.Done():
			return nil
		}
		if !wait(rand.N(300 * time.Millisecond)) {
			return nil
		}
		began := time.Now()
		answer, err := p.get(ctx, path)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		p.looks.Add(1)
		if !wait(max(500*time.Millisecond, 20*time.Since(began))) {
			return nil
		}
	}
}

// TestManyPeople: people who have the overview open cost a server with 20,000 hosts little, while processes change all
// the time. Short: few of both, without bounds.
func TestManyPeople(t *testing.T) {
	t.Parallel()
	hosts, people, length := 20, 4, 4*time.Second
	if judge.Long() {
		hosts, people, length = 20_000, 200, time.Minute
	}
	f := harness.NewFleet(t, binaries.drover, binaries.agent, "--log-level", "info")
	fill(f, hosts, 5)
	l := newLiar(f, "10.66.0.1")
	l.introduce()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { l.change(ctx) })

	group := make([]*person, people)
	for i := range group {
		user := fmt.Sprint("person-", i/20) // each may have 20 browsers
		if i%20 == 0 {
			f.CLI("user", "create", user, "--admin")
		}
		var err error
		group[i], err = newPerson(f, strings.TrimSpace(f.CLI("login", user)))
		must0(t, err)
	}
	server := f.Server.PID()
	l.waited()
	alone, before := share(t, server, length/2), harness.Peak(t, server)
	quiet := l.waited()
	for _, p := range group {
		work.Go(func() {
			if err := p.sit(ctx, "/ui/"); err != nil {
				t.Errorf("a person: %v", err)
			}
		})
	}
	harness.Eventually(t, "all people to look", func() bool {
		return !slices.ContainsFunc(group, func(p *person) bool { return p.looks.Load() == 0 })
	})
	l.waited()
	together, more := share(t, server, length), harness.Peak(t, server)-before
	busy := l.waited()
	var looks, hints int64
	for _, p := range group {
		looks, hints = looks+p.looks.Load(), hints+p.hints.Load()
	}
	t.Logf("%d people: %.3f of a processor beside %.3f, %d MB beside %d; %d looks, %d hints; answers to reports after %s beside %s",
		people, together-alone, alone, more, before, looks, hints, busy, quiet)
	if judge.Long() && (together-alone > 0.2 || more > 100) {
		t.Errorf("%d people take %.3f of a processor and %d MB, want 0.2 and 100 MB at most", people, together-alone, more)
	}
	if judge.Long() && busy > quiet+quiet/20+slack {
		t.Errorf("the server answers reports after %s with people, and after %s without, want 5%% more at most", busy, quiet)
	}
}

// slack is what the test's own people, who share the processors with the server, may add to an answer.
const slack = time.Millisecond

// share is how much of a processor a process takes for a while.
func share(t testing.TB, pid int, length time.Duration) float64 {
	t.Helper()
	before := processorTime(t, pid)
	<-time.After(length) // it measures that time
	return float64(processorTime(t, pid)-before) / float64(length)
}

// change reports another state of some processes, ten times a second, until ctx ends.
func (l *liar) change(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	states := []string{process.StateRunning, process.StateStarting}
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var r wire.Report
		for n := range 5 {
			r.Observed = append(r.Observed, observation("busy", fmt.Sprint("worker-", n), i, process.Status{State: states[i%2]}))
		}
		began := time.Now()
		l.tell(r)
		l.mu.Lock()
		l.answered = append(l.answered, time.Since(began))
		l.mu.Unlock()
	}
}

// waited is the median of the times after which the server has answered reports of change since the last call.
func (l *liar) waited() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.answered
	l.answered = nil
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
