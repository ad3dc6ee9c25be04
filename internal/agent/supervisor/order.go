package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// order is which processes are after which, and who waits for a change of a process. Its zero value is ready to use,
// and it is safe for concurrent use.
type order struct {
	mu sync.Mutex
	// after has the processes that a process is after; dependents is the reverse.
	after, dependents map[process.ID][]process.ID
	waiting           map[process.ID]map[*waiter]bool
	// copies has the processes with the name of a copy, in the order of their numbers.
	copies map[process.ID][]process.ID
	// leaving has, by namespace, the processes whose last operation is the first part of a removal, oldest first. Those
	// that have ended leave it at the next look.
	leaving map[string][]process.ID
}

// copyOf returns the process whose copy has this name.
func copyOf(id process.ID) (of process.ID, number int) {
	name, number := process.CutCopy(id.Name)
	return process.ID{Namespace: id.Namespace, Name: name}, number
}

// add adds a process of the host to the index of copies; remove removes the process.
func (o *order) add(id process.ID) {
	of, number := copyOf(id)
	if number == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.copies == nil {
		o.copies = map[process.ID][]process.ID{}
	}
	all := o.copies[of]
	at := slices.IndexFunc(all, func(other process.ID) bool {
		_, n := copyOf(other)
		return n > number
	})
	if at < 0 {
		at = len(all)
	}
	o.copies[of] = slices.Concat(all[:at], []process.ID{id}, all[at:]) // a new list: copiesOf hands the old one out
}

func (o *order) remove(id process.ID) {
	of, number := copyOf(id)
	if number == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(o.copies[of]), func(other process.ID) bool { return other == id })
	if o.copies[of] = rest; len(rest) == 0 {
		delete(o.copies, of)
	}
}

// copiesOf returns the copies of a process, in the order of their numbers.
func (o *order) copiesOf(id process.ID) []process.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.copies[id]
}

// removal notes whether the last operation of a process is the first part of its removal.
func (o *order) removal(id process.ID, removes bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.leaving[id.Namespace]
	at := slices.Index(all, id)
	switch {
	case removes && at < 0:
		if o.leaving == nil {
			o.leaving = map[string][]process.ID{}
		}
		o.leaving[id.Namespace] = append(all, id)
	case !removes && at >= 0 && len(all) == 1:
		delete(o.leaving, id.Namespace)
	case !removes && at >= 0:
		o.leaving[id.Namespace] = slices.Delete(all, at, at+1)
	}
}

// leaves returns the process whose removal from a namespace began first, but for one.
func (o *order) leaves(namespace string, but process.ID) (id process.ID, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.leaving[namespace] {
		if id != but {
			return id, true
		}
	}
	return process.ID{}, false
}

type waiter struct{ call func() }

// next calls fn once, at the next change of one of these processes. fn must not block. cancel ends the wait.
func (o *order) next(ids []process.ID, fn func()) (cancel func()) {
	w := &waiter{}
	cancel = func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, id := range ids {
			if delete(o.waiting[id], w); len(o.waiting[id]) == 0 {
				delete(o.waiting, id)
			}
		}
	}
	w.call = sync.OnceFunc(func() {
		cancel()
		fn()
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if o.waiting == nil {
			o.waiting = map[process.ID]map[*waiter]bool{}
		}
		if o.waiting[id] == nil {
			o.waiting[id] = map[*waiter]bool{}
		}
		o.waiting[id][w] = true
	}
	return cancel
}

// lookAndNext looks, and calls fn once at the next change of one of the processes that the look names. No change after
// the look is lost. fn may be called early, and must not block; cancel ends the wait.
func (o *order) lookAndNext(look func() wait, fn func()) (w wait, cancel func()) {
	fn = sync.OnceFunc(fn)
	on := look().on
	for {
		cancel = o.next(on, fn)
		// Again: what has changed before next wakes nobody, and it may have changed whose changes matter.
		if w = look(); slices.Equal(w.on, on) {
			return w, cancel
		}
		cancel()
		on = w.on
	}
}

// changed takes over the processes that one is after, and calls all who wait for its change.
func (o *order) changed(id process.ID, rec *record.Record) {
	o.mu.Lock()
	if rec != nil && len(rec.Spec.After) > 0 || len(o.after[id]) > 0 {
		o.put(id, rec)
	}
	calls := slices.Collect(maps.Keys(o.waiting[id]))
	o.mu.Unlock()
	for _, w := range calls {
		w.call()
	}
}

// put replaces what a process is after. The caller holds the lock.
func (o *order) put(id process.ID, rec *record.Record) {
	if o.after == nil {
		o.after, o.dependents = map[process.ID][]process.ID{}, map[process.ID][]process.ID{}
	}
	var ids []process.ID
	if rec != nil {
		ids = peersOf(id, rec.Spec.After)
	}
	if slices.Equal(ids, o.after[id]) {
		return
	}
	for _, other := range o.after[id] {
		// A clone, because dependentsOf hands the list out.
		o.dependents[other] = slices.DeleteFunc(slices.Clone(o.dependents[other]),
			func(d process.ID) bool { return d == id })
		if len(o.dependents[other]) == 0 {
			delete(o.dependents, other)
		}
	}
	if o.after[id] = ids; len(ids) == 0 {
		delete(o.after, id)
	}
	for _, other := range ids {
		o.dependents[other] = append(slices.Clone(o.dependents[other]), id)
		process.SortIDs(o.dependents[other])
	}
}

// dependentsOf returns the processes that are after this one, sorted; those of a copy are also after all copies.
func (o *order) dependentsOf(id process.ID) []process.ID {
	of, number := copyOf(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	if number == 0 || len(o.dependents[of]) == 0 {
		return o.dependents[id]
	}
	all := slices.Concat(o.dependents[id], o.dependents[of])
	process.SortIDs(all)
	return slices.Compact(all)
}

// cycle returns a path from a process over those that it is after back to itself, or nil. first replaces what the
// process itself is after.
func (o *order) cycle(id process.ID, first []process.ID) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[process.ID]bool{}
	var visit func(at process.ID, after []process.ID) []string
	visit = func(at process.ID, after []process.ID) []string {
		for _, name := range after {
			after = append(slices.Clip(after), o.copies[name]...)
		}
		for _, next := range after {
			if next == id {
				return []string{at.String(), id.String()}
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if path := visit(next, o.after[next]); path != nil {
				return append([]string{at.String()}, path...)
			}
		}
		return nil
	}
	return visit(id, first)
}

// peersOf returns the processes of the names in After, sorted.
func peersOf(id process.ID, after map[string]string) []process.ID {
	ids := make([]process.ID, 0, len(after))
	for name := range after {
		ids = append(ids, process.Peer(id, name))
	}
	process.SortIDs(ids)
	return slices.Compact(ids)
}

// wait is a look at the processes that another one waits for.
type wait struct {
	// on are the processes whose next change matters.
	on []process.ID
	// unmet says, for each process that does not have its state, what is missing.
	unmet []string
	// busy tells that an operation on one of the processes is open, or the first look, and may bring its state about.
	busy bool
	// cycle is a path of processes that wait for each other, back to the first; nil if there is none.
	cycle []string
}

// and adds another look.
func (w wait) and(other wait) wait {
	return wait{
		on: append(w.on, other.on...), unmet: append(w.unmet, other.unmet...), busy: w.busy || other.busy,
		cycle: other.cycle,
	}
}

// afterStart looks at the processes that this one is after, by this spec.
func (s *Supervisor) afterStart(id process.ID, spec *process.Spec) (w wait) {
	for _, name := range slices.Sorted(maps.Keys(spec.After)) {
		want := process.After(spec.After[name])
		for _, r := range s.called(process.Peer(id, name)) { // none: the host has nothing to wait for
			w.on = append(w.on, r.id)
			p := r.shared.load()
			if p.Meets(want) && !r.operationPending() {
				continue
			}
			w.unmet = append(w.unmet, r.id.String()+" "+unmetText(&p, want))
			w.busy = w.busy || r.operationPending() || p.Machine.Busy() || p.Machine.State == lifecycle.Unknown
		}
	}
	if len(w.unmet) > 0 {
		w.cycle = s.order.cycle(id, peersOf(id, spec.After))
	}
	return w
}

// missingPeers returns the processes that this one is after and the host does not have.
func (s *Supervisor) missingPeers(id process.ID, spec *process.Spec) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(spec.After)) {
		if other := process.Peer(id, name); len(s.called(other)) == 0 {
			names = append(names, other.String())
		}
	}
	return names
}

// called returns the runners of a process and its copies. One that somebody has stopped is not among several: the
// others do its work.
func (s *Supervisor) called(id process.ID) (all []*runner) {
	var stopped []*runner
	for _, one := range append([]process.ID{id}, s.order.copiesOf(id)...) {
		r := s.runner(one)
		if r == nil {
			continue
		}
		p := r.shared.load()
		switch {
		case one != id && p.Record != nil && !p.Record.Spec.Foreground(): // only its name is that of a copy
		case p.Record != nil && p.Record.Want == process.WantStopped && !r.operationPending() && !p.Machine.Busy():
			stopped = append(stopped, r)
		default:
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return stopped
	}
	return all
}

// replaced looks at the stops of what this process replaces: copies replace the process, and the process its copies. It
// may have another name now, so it also replaces what is being removed from its namespace.
func (s *Supervisor) replaced(id process.ID) (w wait) {
	others := s.order.copiesOf(id)
	if of, number := copyOf(id); number > 0 {
		others = []process.ID{of}
	}
	stopping := func(other process.ID) bool {
		r := s.runner(other)
		return r != nil && (r.queues(process.Stop) || r.shared.load().Active.Op == process.Stop)
	}
	// One is enough: its end leads to another look, and all others may have ended by then.
	for other, ok := s.order.leaves(id.Namespace, id); ok; other, ok = s.order.leaves(id.Namespace, id) {
		if stopping(other) {
			others = append(slices.Clip(others), other)
			break
		}
		s.order.removal(other, false)
	}
	for _, other := range others {
		if stopping(other) {
			w.on, w.unmet, w.busy = append(w.on, other), append(w.unmet, other.String()+" is not stopped"), true
		}
	}
	return w
}

// runner returns the runner of a process, or nil.
func (s *Supervisor) runner(id process.ID) *runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runners[id]
}

// unmetText says what a process lacks of a wanted state.
func unmetText(p *story.Process, want process.After) string {
	text := map[process.After]string{
		process.AfterStarted: "is not started", process.AfterReady: "is not ready",
		process.AfterFinished: "has not finished",
	}[want]
	switch {
	case p.Record == nil || p.Machine.State == "":
		return text
	case want == process.AfterFinished && p.Machine.State == lifecycle.Finished:
		return "has ended without success"
	}
	state := string(p.Machine.State)
	if p.IsNotReady() {
		state = story.NotReadyState
	}
	return fmt.Sprintf("%s (%s)", text, state)
}

// beforeOthers looks at the processes that are after this one and have the same operation.
func (s *Supervisor) beforeOthers(id process.ID, op process.Op) (w wait) {
	for _, other := range s.order.dependentsOf(id) {
		r := s.runner(other)
		if r == nil {
			continue
		}
		p := r.shared.load()
		if !r.queues(op) && p.Active.Op != op {
			continue
		}
		if p.Record != nil && s.order.cycle(other, peersOf(other, p.Record.Spec.After)) != nil {
			continue // somebody must be the first
		}
		w.on, w.unmet, w.busy = append(w.on, other), append(w.unmet, other.String()+" is not stopped"), true
	}
	return w
}

// leftAlone names the running processes that are after a restarted one and are not restarted themselves.
func (s *Supervisor) leftAlone(id process.ID) string {
	var names []string
	for _, other := range s.order.dependentsOf(id) {
		if r := s.runner(other); r != nil && !r.queues(process.Restart) {
			if p := r.shared.load(); p.Machine.State == lifecycle.Running {
				names = append(names, other.String())
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "not restarted, although after it: " + strings.Join(names, ", ")
}

// inOrder waits until an ordered operation may begin: a start after the processes that it is after, a restart after
// their open operations, a stop after the stops of those that are after it. It fails if a start waited without success
// for as long as its readiness may take; the time of open operations does not count. It fails early if ctx ends, if the
// subject is told to hurry, or beside a copy.
func (r *runner) inOrder(ctx context.Context, t task, subject *operation.Subject) error {
	spec := operation.SpecInForce(t.entry, *subject)
	if !t.entry.Ordered || spec == nil {
		return nil
	}
	order := t.entry.Op.Info().Order
	look := func() wait { return r.sup.afterStart(r.id, spec) }
	replaces := len(r.sup.replaced(r.id).on) > 0
	switch {
	case order == process.Unordered:
		return nil
	case order == process.BeforeOthers:
		look = func() wait { return r.sup.beforeOthers(r.id, t.entry.Op) }
	case replaces:
		look = func() wait { return r.sup.replaced(r.id).and(r.sup.afterStart(r.id, spec)) }
	case len(spec.After) == 0:
		return nil
	}
	for left, asked := spec.Within(), replaces; ; asked = true {
		changed := make(chan struct{})
		w, cancel := r.sup.order.lookAndNext(look, func() { close(changed) })
		done := len(w.unmet) == 0 || order == process.AfterOperations && !w.busy
		var waited time.Duration
		var err error
		switch {
		case done:
		case w.cycle != nil:
			err = process.Errorf(process.Failed, "not begun: the processes wait for each other: %s",
				strings.Join(w.cycle, " → ")).Because(process.CauseWaitsForOthers)
		case left <= 0 && !w.busy:
			err = process.Errorf(process.Failed, "not begun after a wait of %s: %s", spec.Within(),
				strings.Join(w.unmet, ", ")).Because(process.CauseWaitsForOthers)
		case !asked:
			err = r.sup.operator.Beside(ctx, t.entry, *subject) // no wait mends it
		default:
			waited, err = r.forChange(ctx, subject.Hurry, changed, left, w)
		}
		cancel()
		if done || err != nil {
			return err
		}
		if !w.busy {
			left -= waited
		}
	}
}

// forChange waits for a change, or for the rest of the time of a start. It returns the time that it waited.
func (r *runner) forChange(ctx context.Context, hurry, changed <-chan struct{}, left time.Duration, w wait) (
	waited time.Duration, err error,
) {
	r.post(func(_ context.Context, r *runner) { r.waitsFor(strings.Join(w.unmet, ", ")) })
	var over <-chan time.Time
	if !w.busy {
		limit := time.NewTimer(left)
		defer limit.Stop()
		over = limit.C
	}
	began := time.Now()
	select {
	case <-changed:
	case <-over:
	case <-hurry:
		return 0, process.Errorf(process.Failed, "not begun: it waited, as %s, until another operation came",
			strings.Join(w.unmet, ", ")).Because(process.CauseStopped)
	case <-ctx.Done():
		return 0, operation.Interruption(ctx)
	}
	return time.Since(began), nil
}

// waitsFor shows what the operation under way waits for.
func (r *runner) waitsFor(what string) {
	if r.work.entry != nil && r.work.waits != what {
		r.work.waits = what
		r.publish()
	}
}

// keepsOrder reports whether a launch waits for the processes that this one is after: the first launch after a reboot,
// or the launch of a start or host that has not begun yet.
func (r *runner) keepsOrder() bool { return r.rebooted() || r.neverBegan() }

// neverBegan reports whether the process is down because its last start has not begun yet: it waited for others without
// success, a host has asked for it, or a shutdown of the host has ended its last run.
func (r *runner) neverBegan() bool {
	return r.proc.Machine.State != lifecycle.Running && r.proc.Runtime.Process == nil &&
		(r.proc.Runtime.Waited || r.proc.Runtime.Cause.ID == process.CauseWaitsForOthers)
}

// heldByOrder reports whether the process may not be launched yet, because a process that it is after is not up. It
// then wakes the runner at the next change of such a process. After a reboot, processes that wait for each other start.
func (r *runner) heldByOrder() bool {
	spec := &r.proc.Record.Spec
	look := func() wait { return r.sup.afterStart(r.id, spec) }
	if w := look(); len(w.unmet) == 0 || w.cycle != nil && !r.neverBegan() {
		return false
	}
	if r.leaveOrder != nil {
		r.leaveOrder()
	}
	var w wait
	w, r.leaveOrder = r.sup.order.lookAndNext(look, func() {
		r.post(func(ctx context.Context, r *runner) { r.lookAgain(ctx) })
	})
	if len(w.unmet) == 0 {
		return false // it has changed meanwhile
	}
	text := "it waits: " + strings.Join(w.unmet, ", ")
	if w.cycle != nil {
		text += "; they wait for each other: " + strings.Join(w.cycle, " → ")
	}
	since := time.Now()
	if c := r.proc.Runtime.Cause; c.ID == process.CauseWaitsForOthers {
		since = time.UnixMilli(c.Since) // it is the same wait
	}
	r.proc.Blame(since, process.CauseWaitsForOthers, text)
	return true
}

// lookAgain launches a process that was held if it may run now.
func (r *runner) lookAgain(ctx context.Context) {
	before := r.proc.Cause().Text
	if r.proc.Machine.Awaits != lifecycle.Order || r.heldByOrder() {
		if r.proc.Cause().Text != before { // else two that wait for each other would wake each other for ever
			r.publish()
		}
		return
	}
	r.proc.Clear()
	r.step(ctx, lifecycle.Freed{})
}
