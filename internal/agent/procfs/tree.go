package procfs

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/instance"
)

// Root is the root of a tree that drover measures.
type Root struct {
	Identity instance.Identity
	// Run is the run of drover in which the process was started; empty if somebody else started it.
	Run string
}

// Account is the data of the control groups about a run.
type Account struct {
	// PIDs are its processes without zombies.
	PIDs []int
	// CPU is the CPU time of all processes that were ever in the run; it is valid only if Accounted is set.
	CPU       time.Duration
	Accounted bool
}

// Runs keeps the accounts of runs.
type Runs interface {
	// Account returns the account of a run; false if no control group holds the run.
	Account(run string) (Account, bool)
}

// TreeUse is what a tree uses, as percent of the whole machine.
type TreeUse struct {
	// CPU is the use from Since to At, Mem the use at At; pages that processes share count for each of them. The times
	// are since boot. At the first look Since is the start of the root.
	CPU, Mem  float64
	Since, At time.Duration
	// RSS is Mem in bytes.
	RSS int64
	// Processes is how many there are in the tree; 0 says that the root has ended.
	Processes int
	// Files is how many files the root has open: see FS.OpenFiles.
	Files int
}

// Trees measures processes with their trees. A tree is the control group of the run, or else the descendants of its
// root: drover loses sight of a descendant whose parent has ended. A process can be in two trees if one root is in the
// other tree. It is safe for concurrent use.
type Trees struct {
	sampler *Sampler
	runs    Runs
	clock   func() time.Duration

	mu   sync.Mutex
	last map[instance.Identity]*tree
}

// tree is the state of a tree at the last look.
type tree struct {
	at time.Duration
	// account is the CPU time of the run; -1 if the members count instead.
	account time.Duration
	members []member // by pid
}

// member is one process of a tree. own is the ticks that it has used; all includes the ticks of its reaped children.
type member struct {
	id       instance.Identity
	own, all uint64
}

// NewTrees returns a measure of trees that shares the handles of the sampler. clock is the time since boot.
func NewTrees(s *Sampler, runs Runs, clock func() time.Duration) *Trees {
	return &Trees{sampler: s, runs: runs, clock: clock, last: map[instance.Identity]*tree{}}
}

// Measure measures trees, and returns the results in the order of the roots. It reads all of /proc only if a tree has
// no control group.
func (t *Trees) Measure(roots []Root) ([]TreeUse, error) {
	total, err := t.sampler.memory()
	if err != nil {
		return nil, err
	}
	boot, err := t.sampler.fs.BootID()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	uses, seen := make([]TreeUse, len(roots)), make(map[instance.Identity]int, len(roots))
	var everything family
	for i, r := range roots {
		if r.Identity.PID <= 1 || r.Identity.BootID != boot {
			continue
		}
		if first, again := seen[r.Identity]; again {
			uses[i] = uses[first]
			continue
		}
		seen[r.Identity] = i
		l := treeSample{Trees: t, root: r.Identity, total: total, at: t.clock(), account: -1}
		pids, ok := l.byRun(r.Run)
		if !ok {
			if everything == nil {
				if everything, err = t.sampler.fs.family(); err != nil {
					return nil, err
				}
			}
			pids = everything.of(r.Identity.PID)
		}
		uses[i] = l.measure(pids)
	}
	t.tidy()
	return uses, nil
}

// tidy forgets the trees that nobody asked for lately; the caller holds the lock.
func (t *Trees) tidy() {
	now := t.clock()
	for id, tree := range t.last {
		if now-tree.at > unaskedTime {
			delete(t.last, id)
		}
	}
}

// treeSample is one look at one tree.
type treeSample struct {
	*Trees
	root    instance.Identity
	total   int64
	at      time.Duration
	account time.Duration

	alive   bool // the root
	members []member
	living  int
	rss     int64
}

// byRun returns the pids in the control group of the run, if the root is among them.
func (t *treeSample) byRun(run string) ([]int, bool) {
	if run == "" {
		return nil, false
	}
	a, ok := t.runs.Account(run)
	if _, found := slices.BinarySearch(a.PIDs, t.root.PID); !ok || !found {
		return nil, false
	}
	if a.Accounted {
		t.account = a.CPU
	}
	return a.PIDs, true
}

// measure looks at every member, remembers the result, and returns what the tree used since the last look.
func (t *treeSample) measure(pids []int) TreeUse {
	before := t.last[t.root]
	t.read(pids, before)
	if !t.alive {
		delete(t.last, t.root)
		return TreeUse{}
	}
	now := &tree{at: t.at, account: t.account, members: t.members}
	t.last[t.root] = now
	use := TreeUse{
		At: t.at, Mem: memShare(t.rss, t.total), RSS: t.rss, Processes: t.living,
		Files: t.sampler.fs.OpenFiles(t.root.PID),
	}
	var used time.Duration
	switch {
	case before == nil || (before.account < 0) != (now.account < 0):
		use.Since = min(ticksDuration(t.root.StartTicks), t.at)
		used = now.lifetime()
	case now.account >= 0:
		use.Since, used = before.at, now.account-before.account
	default:
		use.Since, used = before.at, now.since(before)
	}
	use.CPU = t.sampler.share(uint64(max(used, 0)/(time.Second/instance.TicksPerSecond)), use.At-use.Since)
	return use
}

// read looks at the members, and at members that have left since the last look.
func (t *treeSample) read(pids []int, before *tree) {
	var known []member
	if before != nil {
		known = before.members
	}
	t.members = make([]member, 0, len(pids))
	for _, pid := range pids {
		for len(known) > 0 && known[0].id.PID < pid {
			t.countFormer(known[0].id)
			known = known[1:]
		}
		if len(known) > 0 && known[0].id.PID == pid {
			id := known[0].id
			known = known[1:]
			if t.add(id) {
				continue
			}
		}
		if st, err := t.sampler.fs.Stat(pid); err == nil {
			t.count(instance.Identity{BootID: t.root.BootID, PID: pid, StartTicks: st.StartTicks}, st)
		}
	}
	for _, m := range known {
		t.countFormer(m.id)
	}
}

// add looks at a known member through its handle.
func (t *treeSample) add(id instance.Identity) bool {
	st, err := t.sampler.stat(t.sampler.sampleOf(id), id.PID)
	if err != nil || st.StartTicks != id.StartTicks {
		t.sampler.Forget(id)
		return false
	}
	t.count(id, st)
	return true
}

// countFormer handles a former member: a zombie still has its ticks, which its parent will get.
func (t *treeSample) countFormer(id instance.Identity) {
	st, err := t.sampler.stat(t.sampler.sampleOf(id), id.PID)
	if err == nil && st.StartTicks == id.StartTicks && st.Zombie() {
		t.count(id, st)
		return
	}
	if id != t.root {
		t.sampler.Forget(id)
	}
}

func (t *treeSample) count(id instance.Identity, st Stat) {
	own := st.UserTicks + st.SystemTicks
	t.members = append(t.members, member{id: id, own: own, all: own + st.ReapedTicks})
	if st.Zombie() {
		return
	}
	t.living++
	t.rss += st.RSS
	t.alive = t.alive || id == t.root
}

// lifetime is the CPU time that a tree has used so far.
func (t *tree) lifetime() time.Duration {
	if t.account >= 0 {
		return t.account
	}
	var ticks uint64
	for _, m := range t.members {
		ticks += m.all
	}
	return ticksDuration(ticks)
}

// since returns the CPU time that a tree has used since an earlier look. Two sums are too low in different ways. The
// sum of all ticks lacks the ticks of processes that ended unreaped. The sum of the members' own ticks lacks the ticks
// of processes that ended and were reaped. The greater sum is nearer to the truth.
func (t *tree) since(before *tree) time.Duration {
	var had, have, own uint64
	old := before.members
	for _, m := range before.members {
		had += m.all
	}
	for _, m := range t.members {
		have += m.all
		i, found := slices.BinarySearchFunc(old, m.id.PID, func(o member, pid int) int {
			return cmp.Compare(o.id.PID, pid)
		})
		switch {
		case found && old[i].id == m.id:
			own += m.own - min(old[i].own, m.own)
		case ticksDuration(m.id.StartTicks+1) < before.at:
			had += m.all // it joined the tree: its ticks from before do not count
		default:
			own += m.own
		}
	}
	return ticksDuration(max(have-min(had, have), own))
}

// family has the children of every process.
type family map[int][]int

// family reads the children of all processes, without kernel threads.
func (f FS) family() (family, error) {
	pids, err := f.PIDs()
	if err != nil {
		return nil, err
	}
	children := make(family, len(pids))
	for _, pid := range pids {
		if st, err := f.Stat(pid); err == nil && !st.Kernel {
			children[st.PPID] = append(children[st.PPID], pid)
		}
	}
	return children, nil
}

// of returns the pids of a process and of its descendants, in ascending order.
func (c family) of(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, c[pids[i]]...)
	}
	slices.Sort(pids)
	return pids
}
