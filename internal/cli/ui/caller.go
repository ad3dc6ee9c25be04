package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/term"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/words"
)

// caller does what Update wants done. Its methods block until the server has answered.
type caller struct {
	// life is the time of the screen, which an operation on its way outlives.
	life   context.Context //nolint:containedctx // it is the life of the program, not of a call
	client *client.Client
	lang   words.Lang
	send   func(tea.Msg)

	mu   sync.Mutex
	ends map[string]context.CancelFunc // of the logs and of the events
}

// do returns the command of the terminal library that does it.
func (c *caller) do(d Do) tea.Cmd {
	switch d := d.(type) {
	case Ask:
		return func() tea.Msg { return c.list(d) }
	case Follow:
		ctx := c.only("events")
		return func() tea.Msg { return c.follow(ctx, d.place) }
	case Choose:
		return func() tea.Msg { return c.choose(d) }
	case Submit:
		return func() tea.Msg { return c.submit(d) }
	case Watch:
		return func() tea.Msg {
			task, err := c.client.Task(c.life, d.ID, 0)
			return Watched{ID: d.ID, Task: task, Away: isAway(err), Err: c.problem(err)}
		}
	case Step:
		return func() tea.Msg { return c.step(d) }
	case Cancel:
		return func() tea.Msg {
			answer, err := c.client.Cancel(context.WithoutCancel(c.life), d.ID)
			return Cancelled{ID: d.ID, Answer: answer, Err: c.problem(err)}
		}
	case Add:
		return func() tea.Msg { return c.add(d) }
	case Link:
		return func() tea.Msg { return c.link(d) }
	case ReadLog:
		ctx := c.only("logs")
		return func() tea.Msg { return c.readLogs(ctx, d) }
	case CloseLog:
		c.only("logs")
	case Copy:
		return tea.SetClipboard(string(d))
	case Leave:
		return tea.Quit
	}
	return nil
}

// problem is the text of an error in the language of the screen; empty without one.
func (c *caller) problem(err error) string {
	if err == nil {
		return ""
	}
	return term.Printable(words.Message(err.Error(), c.lang))
}

// isAway reports whether an error may go away by itself: there was no answer, or that of a server in trouble.
func isAway(err error) bool {
	refusal, refused := errors.AsType[*v1.Problem](err)
	_, unreachable := errors.AsType[*client.UnreachableError](err)
	return unreachable || refused && refusal.Status >= http.StatusInternalServerError
}

// list asks for what a place shows.
func (c *caller) list(a Ask) Listed {
	answer := Listed{Number: a.Number}
	err := c.fill(&answer, a)
	answer.At = time.Now()
	switch {
	case err == nil:
	case isAway(err):
		answer.Away = err
	default:
		answer.Refused = c.problem(err)
	}
	return answer
}

func (c *caller) fill(answer *Listed, a Ask) (err error) {
	p := a.place
	f, err := parse(p, c.lang)
	if err != nil {
		return err
	}
	at := p.cursor()
	switch p.kind {
	case processes:
		return c.fillProcesses(answer, a, f)
	case hosts:
		err = put[v1.JoinedHost](answer)(c.client.HostPage(c.life, client.HostFilter{
			Hosts: f.hosts, Selector: f.selector, Search: f.search, State: f.state(), Limit: Page,
		}, at))
	case tasks:
		err = put[v1.Task](answer)(c.client.TaskPage(c.life, client.TaskFilter{
			State: f.state(), App: f.app, Limit: Page,
		}, at))
	case rollouts:
		err = put[v1.Rollout](answer)(c.client.RolloutPage(c.life, client.RolloutFilter{
			State: f.state(), Limit: Page,
		}, at))
	case events:
		filter := f.ofEvents()
		filter.Limit = Page
		err = put[v1.Event](answer)(c.client.EventPage(c.life, filter, at))
	case results:
		return c.fillResults(answer, p)
	case rollout:
		var r v1.Rollout
		r, err = c.client.Rollout(c.life, p.of.id)
		answer.Items = []any{r}
	case why:
		var w v1.Why
		w, err = c.client.Why(c.life, client.WhyFilter{
			Namespace: p.of.namespace, Name: p.of.name, Hosts: []string{p.of.host}, All: true, Limit: Page,
		})
		answer.Items = []any{w}
	case describe, spec:
		return c.fillProcess(answer, p)
	case people, person, audit:
		return c.fillAdmin(c.life, answer, p, f)
	default:
	}
	return err
}

// put puts a page of a list into an answer.
func put[T any](answer *Listed) func(client.Page[T], error) error {
	return func(page client.Page[T], err error) error {
		answer.Next = page.NextCursor
		for _, item := range page.Items {
			answer.Items = append(answer.Items, item)
		}
		return err
	}
}

// firstPage puts the first page of a list into an answer.
func firstPage[T any](answer *Listed, list iter.Seq2[T, error]) error {
	for item, err := range list {
		if err != nil || len(answer.Items) == Page {
			return err
		}
		answer.Items = append(answer.Items, item)
	}
	return nil
}

// fillResults asks for a task and its results.
func (c *caller) fillResults(answer *Listed, p place) error {
	task, err := c.client.Task(c.life, p.of.id, 0)
	if err != nil {
		return err
	}
	answer.Task = &task
	f := client.ResultFilter{Limit: Page}
	if p.wrong {
		f.Outcome = "failed"
	}
	return put[v1.Result](answer)(c.client.ResultPage(c.life, p.of.id, f, p.cursor()))
}

func (c *caller) fillProcesses(answer *Listed, a Ask, f filter) error {
	if a.place.wrong {
		found, total, err := c.wrong(f, Page)
		answer.Wrong = total
		for _, p := range found {
			answer.Items = append(answer.Items, p)
		}
		return err
	}
	which := f.ofProcesses()
	rows, next, _, err := c.client.ProcessPage(c.life, which, a.place.cursor())
	answer.Next = next
	for _, p := range rows {
		answer.Items = append(answer.Items, p)
	}
	if err != nil || !a.count {
		return err
	}
	n, err := c.client.CountProcesses(c.life, which)
	answer.Counts = &n
	return err
}

// wrong lists the processes that are not as they should be, worst first, as 'drover why' does.
func (c *caller) wrong(f filter, limit int) (found []v1.Process, total int, err error) {
	answer, err := c.client.Why(c.life, client.WhyFilter{
		Namespace: f.namespace, Name: f.name, Hosts: f.hosts, Selector: f.selector, Limit: limit,
	})
	for i := range answer.Findings {
		found = append(found, processOf(&answer.Findings[i]))
	}
	return found, answer.Wrong, err
}

// processOf is the process that a finding is about.
func processOf(f *v1.Finding) v1.Process {
	return v1.Process{
		Namespace: f.Namespace, Name: f.Name, Host: f.Host, State: cmp.Or(f.State, process.StateUnknown),
		Stale:         !f.Host.Online,
		ProcessDetail: v1.ProcessDetail{Cause: &f.Cause, Further: f.Further},
	}
}

// fillProcess asks for one process on one host.
func (c *caller) fillProcess(answer *Listed, p place) error {
	found, _, _, err := c.client.ProcessPage(c.life, client.ProcessFilter{
		Namespace: p.of.namespace, Name: p.of.name, Hosts: []string{p.of.host}, Spec: true, Limit: Page,
	}, "")
	if err != nil {
		return err
	}
	for _, f := range found {
		answer.Items = append(answer.Items, f)
		if p.kind != spec || f.Spec == nil {
			continue
		}
		file := processfile.Group(f.Namespace, []processfile.Placed{
			{Name: f.Name, Host: f.Host.ID, Spec: *f.Spec, Single: true},
		})
		file.Revision = f.Revision
		text, err := processfile.Write(processfile.Documents(file))
		if err != nil {
			return err
		}
		answer.Lines = append(answer.Lines, strings.Split(strings.TrimRight(string(text), "\n"), "\n")...)
	}
	if p.kind == describe && len(found) == 1 {
		c.fillUsage(answer, &found[0])
	}
	return nil
}

// choose has the server hold processes: all that match, but some, or those on which a task has failed. It names those
// that 'drover why' lists.
func (c *caller) choose(d Choose) Chosen {
	answer := Chosen{Op: d.Op, all: d.all, failedOf: d.failedOf}
	if d.failedOf != "" {
		targets, err := c.failed(d)
		if err == nil {
			answer.Selection, err = c.client.Select(c.life, client.ProcessFilter{}, v1.SelectionRequest{
				Op: d.Op, Targets: targets,
			})
		}
		answer.Err = c.problem(err)
		return answer
	}
	f, err := parse(place{kind: processes, filter: d.all.filter, wrong: d.all.wrong}, c.lang)
	r := v1.SelectionRequest{Op: d.Op, Except: byProcess(slices.Collect(maps.Values(d.all.except)))}
	which := f.ofProcesses()
	if err == nil && d.all.wrong {
		var found []v1.Process
		found, _, err = c.wrong(f, 0)
		r.Targets, which = byProcess(found), client.ProcessFilter{}
	}
	if err == nil {
		answer.Selection, err = c.client.Select(c.life, which, r)
	}
	answer.Err = c.problem(err)
	return answer
}

// failed are the processes on which a task has failed.
func (c *caller) failed(d Choose) ([]v1.Target, error) {
	targets := []v1.Process{}
	for r, err := range c.client.Results(c.life, d.failedOf, client.ResultFilter{Outcome: "failed"}) {
		switch {
		case err != nil:
			return nil, err
		case r.Op != d.Op:
			return nil, errors.New(words.Screen.ManyOps.In(c.lang))
		}
		targets = append(targets, v1.Process{Namespace: r.Namespace, Name: r.Name, Host: v1.Host{ID: r.Host}})
	}
	return append([]v1.Target{}, byProcess(targets)...), nil
}

// submit begins an operation. The end of the screen does not interrupt it, because a person must know whether the
// server has accepted it.
func (c *caller) submit(d Submit) Submitted {
	ctx, answer := context.WithoutCancel(c.life), Submitted{Op: d.Op, Rows: d.Rows}
	r := v1.Request{Op: d.Op, Targets: byProcess(d.Targets), Selection: d.Selection, Rollout: d.plan}
	var err error
	if d.plan != nil {
		answer.Rollout, err = c.client.RollOut(ctx, r)
	} else {
		answer.Task, err = c.client.Submit(ctx, r)
	}
	answer.Err = c.problem(err)
	return answer
}

// step does something with a rollout, also beyond the end of the screen.
func (c *caller) step(d Step) Stepped {
	r, err := stepBy(d.Verb).do(c.client, context.WithoutCancel(c.life), d.ID)
	return Stepped{Verb: d.Verb, ID: cmp.Or(r.ID, d.ID), State: r.State, Err: c.problem(err)}
}

// only ends what is done for a purpose, and returns the context of what is done next.
func (c *caller) only(purpose string) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.ends[purpose]; end != nil {
		end()
	}
	ctx, end := context.WithCancel(c.life)
	if c.ends == nil {
		c.ends = map[string]context.CancelFunc{}
	}
	c.ends[purpose] = end
	return ctx
}

// hintEach is the shortest time between two messages about events.
const hintEach = 500 * time.Millisecond

// follow tells of the events of a list. Many events make one message.
func (c *caller) follow(ctx context.Context, p place) tea.Msg {
	f, err := parse(p, c.lang)
	if err != nil {
		return nil // the list says so
	}
	news := make(chan bool, 1)
	tell := func(lost bool) {
		select {
		case news <- lost:
		default: // the message on its way is as good
		}
	}
	go func() {
		defer close(news)
		which := f.ofEvents()
		which.Since, which.Until = time.Time{}, time.Time{} // what comes is a hint, whatever its time
		for _, err := range c.client.FollowEvents(ctx, which) {
			tell(err != nil)
		}
	}()
	for lost := range news {
		if ctx.Err() != nil {
			return nil
		}
		c.send(Happened{of: p, Lost: lost})
		pause := time.NewTimer(hintEach)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil
}

// Bounds of logs: the lines of the past, the lines of one message, and the time until lines are shown.
const (
	logTail  = 200
	logBatch = 500
	logDelay = 100 * time.Millisecond
)

// readLogs reads logs to their ends, and sends their lines in batches.
func (c *caller) readLogs(ctx context.Context, d ReadLog) LogRead {
	lines := make(chan LogLine, logBatch)
	var readers sync.WaitGroup
	for i, of := range d.of {
		readers.Go(func() {
			for l, err := range c.client.Logs(ctx, of.namespace, of.name, client.LogFilter{
				Hosts: []string{of.host}, Run: d.run, Tail: logTail, Follow: d.follow,
			}) {
				select {
				case lines <- LogLine{Of: i, Text: c.logLine(l, err)}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() {
		readers.Wait()
		close(lines)
	}()
	for {
		batch, more := gather(lines)
		if ctx.Err() != nil || !more {
			return LogRead{Number: d.Number, Lines: batch, Ended: true}
		}
		c.send(LogRead{Number: d.Number, Lines: batch})
	}
}

// gather waits for a line, and takes the lines of a moment after it. It reports whether there may be more.
func gather(lines <-chan LogLine) (batch []LogLine, more bool) {
	first, ok := <-lines
	if !ok {
		return nil, false
	}
	batch = append(batch, first)
	delay := time.NewTimer(logDelay)
	defer delay.Stop()
	for len(batch) < logBatch {
		select {
		case l, ok := <-lines:
			if !ok {
				return batch, false
			}
			batch = append(batch, l)
		case <-delay.C:
			return batch, true
		}
	}
	<-delay.C // the screen changes ten times a second at most
	return batch, true
}

func (c *caller) logLine(l v1.LogLine, err error) string {
	switch {
	case err != nil:
		return c.problem(err)
	case l.Error != "":
		return l.Host + ": " + l.Error
	case l.Lost > 0:
		return words.Screen.BytesLost.In(c.lang, "n", l.Lost)
	}
	before := ""
	if l.Time != nil {
		before = l.Time.Local().Format("15:04:05 ")
	}
	if _, number := process.CutCopy(l.Name); number > 0 {
		before += l.Name + " "
	}
	return before + fmt.Sprint(strings.ReplaceAll(strings.TrimSuffix(l.Text, "\r"), "\t", "    "))
}
