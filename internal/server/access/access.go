// Package access defines callers and their rights: grants, limits, the principal of a call, and how to make and
// compare secrets and tokens. It decides and stores nothing: package gate identifies a caller, and the store keeps
// the grants of an app.
package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drover/internal/process"
)

// Operation is the object of a right. Operations on processes have the names of process.Op; the others concern hosts.
type Operation string

// The operations that are not a process.Op.
const (
	GetGroup     Operation = "get-group"     // read the shared limits of a namespace on a host
	SetGroup     Operation = "set-group"     // change the shared limits of a namespace on a host
	ReadLogs     Operation = "read-logs"     // read what processes write
	ReadAgents   Operation = "read-agents"   // read the state and the facts of agents
	RenameAgents Operation = "rename-agents" // give a host another agent id
	LabelAgents  Operation = "label-agents"  // set labels of hosts, which may grant rights
	Silence      Operation = "silence"       // withhold alarms of processes
	// readAudit is to read the audit records of everybody. Only the group Auditor has it, so that no grant of All does.
	readAudit Operation = "read-audit"
	// UpgradeAgents is the right of process.Upgrade.
	UpgradeAgents Operation = "upgrade-agents"
)

// The groups: each represents several operations in a grant.
const (
	All     = "*"                          // every operation
	Read    = string(process.GroupRead)    // operations that change nothing
	Operate = string(process.GroupOperate) // operations on registered processes
	Setup   = string(process.GroupSetup)   // register, update and unregister processes, and set shared limits
)

// The roles of people: each is a group, too.
const (
	Viewer     = "viewer"     // Read
	Operator   = "operator"   // Read and Operate
	Maintainer = "maintainer" // Read, Operate and Setup
	Auditor    = "auditor"    // Read, and all audit records; only on all namespaces and hosts
)

// personMark begins the app of people who call without an app.
const personMark = "person:"

// PersonApp is the app code in tasks and audit rows of a user who calls without an app. No app has such a code. Each
// user has a code, so users see only their own tasks, and have limits of their own.
func PersonApp(user string) string { return personMark + user }

// IsPersonApp reports whether an app code is one of PersonApp.
func IsPersonApp(code string) bool { return strings.HasPrefix(code, personMark) }

// OperationOf returns the right that a process operation needs.
func OperationOf(op process.Op) Operation {
	return Operation(cmp.Or(op.Info().Right, string(op.Name())))
}

// Operations lists all operations.
func Operations() []Operation {
	hosts := []Operation{RenameAgents, LabelAgents, UpgradeAgents, Silence}
	return slices.Concat(Members(Read), Members(Operate), Members(Setup), hosts)
}

// Groups lists the names that represent several operations.
func Groups() []string {
	return []string{All, Read, Operate, Setup, Viewer, Operator, Maintainer, Auditor}
}

// Members returns the operations of a group; nil if there is no such group.
func Members(group string) []Operation {
	switch group {
	case All:
		return Operations()
	case Read:
		return append(operationsOf(process.GroupRead), ReadLogs, GetGroup, ReadAgents)
	case Operate:
		return operationsOf(process.GroupOperate)
	case Setup:
		return operationsOf(process.GroupSetup)
	case Viewer:
		return Members(Read)
	case Operator:
		return append(Members(Read), Members(Operate)...)
	case Maintainer:
		return append(Members(Operator), Members(Setup)...)
	case Auditor:
		return append(Members(Read), readAudit)
	default:
		return nil
	}
}

func operationsOf(group process.OpGroup) (list []Operation) {
	for _, op := range process.OpsIn(group) {
		list = append(list, OperationOf(op))
	}
	return list
}

// Host is an agent as rights see it. Unknown fields are empty; the area of an unknown host is NoArea.
type Host struct {
	Area int
	IP   string
	ID   string // stable id
	// Alias is another id, assigned by a caller.
	Alias string
	// Labels are the labels that grant rights.
	Labels Labels
}

// Labels are the labels of a host that people and join tokens have set. Whoever controls the host cannot change them.
type Labels struct {
	// Set are the labels of people, which override those of the token; nil hides a label.
	Set    map[string]*string
	Joined map[string]string
}

// Get returns the value of a label. hidden tells that a person has removed it.
func (l Labels) Get(key string) (value string, found, hidden bool) {
	if set, decided := l.Set[key]; decided {
		if set == nil {
			return "", false, true
		}
		return *set, true, false
	}
	value, found = l.Joined[key]
	return value, found, false
}

// NoArea is the area of a host without an area.
const NoArea = -1

// Address is the host as "area:ip", or its id if it has no address.
func (h Host) Address() string {
	if h.IP == "" {
		return h.ID
	}
	return fmt.Sprintf("%d:%s", h.Area, h.IP)
}

// Limits bound the calls of an app; zero means no bound.
type Limits struct {
	// Rate is the number of calls a second; Burst is the number of calls at once after a pause (at least 1 if there
	// is a rate).
	Rate  float64 `json:"rate,omitempty"`
	Burst int     `json:"burst,omitempty"`
	// Concurrent is the number of concurrent calls.
	Concurrent int `json:"concurrent,omitempty"`
}

// Validate reports the errors in the limits.
func (l Limits) Validate() error {
	switch {
	case !(l.Rate >= 0 && l.Rate <= 1e6): // rejects NaN too
		return fmt.Errorf("rate is %v: expected 0 (no limit) to 1000000 calls a second", l.Rate)
	case l.Burst < 0 || l.Burst > 1e6:
		return fmt.Errorf("burst is %d: expected 0 to 1000000", l.Burst)
	case l.Concurrent < 0 || l.Concurrent > 1e6:
		return fmt.Errorf("concurrent is %d: expected 0 (no limit) to 1000000", l.Concurrent)
	default:
		return nil
	}
}

// Principal is the identity and the rights of a call. The zero principal has no rights.
type Principal struct {
	// App is the code of the app; empty for an operator of this machine, who sees the tasks of all apps.
	App  string
	User string
	// Proven tells that the user is a person who has proven it, with a token or on the socket. Otherwise an app names
	// the user.
	Proven bool
	// Admin has every right, and may manage apps, users and audit records.
	Admin  bool
	Grants []Grant
	Limits Limits
	// Targets is the number of targets of the call. A grant with a smaller limit allows no change. 0 means that no
	// limit counts.
	Targets int
	// Via are the ids of the token that proves the user, last, and of the tokens that it was made with.
	Via []string
}

// LocalAdmin is the operator of this machine; the socket's peer credentials prove the uid.
func LocalAdmin(uid uint32) Principal {
	return Principal{User: fmt.Sprintf("uid:%d", uid), Proven: true, Admin: true}
}

// Name is the name of the caller in records: the user, or the app that calls without one.
func (p *Principal) Name() string { return cmp.Or(p.User, p.App) }

// Who names the holder of the rights: the app, or the user who calls without an app.
func (p *Principal) Who() string {
	if p.App == "" || IsPersonApp(p.App) {
		return fmt.Sprintf("user %q", p.User)
	}
	return fmt.Sprintf("app %q", p.App)
}

// Reach is the set of hosts on which a principal may do one operation, or two operations.
type Reach struct {
	op         Operation
	everywhere bool
	grants     []granted
	// small are the grants with a limit below the number of targets of the call.
	small   []granted
	targets int
	// and is the reach of the second operation, if there is one.
	and *Reach
}

// On returns the reach of op on processes of the namespace.
func (p *Principal) On(op Operation, namespace string) Reach {
	return p.reach(op, func(g *Grant) bool { return g.inScope(namespace) })
}

// Sets returns the hosts on which the principal may decide what runs as a process of the namespace: a call with a spec
// of its own needs the right to start, and for a person also the right to update. So an operator operates only what
// somebody else has set up.
func (p *Principal) Sets(namespace string) Reach {
	r := p.On(OperationOf(process.Start), namespace)
	if IsPersonApp(p.App) {
		update := p.On(OperationOf(process.Update), namespace)
		r.and = &update
	}
	return r
}

// Anywhere returns the reach of op on processes of any namespace: the hosts where the principal may do op at all.
func (p *Principal) Anywhere(op Operation) Reach {
	return p.reach(op, func(*Grant) bool { return true })
}

// ReadsAudit reports whether the principal may read the audit records of everybody.
func (p *Principal) ReadsAudit() bool { return p.OnHosts(readAudit).Everywhere() }

// Namespaces returns the patterns of the namespaces in which the principal may do op on any host; nil means all
// namespaces.
func (p *Principal) Namespaces(op Operation) []string {
	if p.Admin {
		return nil
	}
	patterns := []string{}
	for i := range p.Grants {
		g := &p.Grants[i]
		if !g.allows(op) {
			continue
		}
		if slices.Contains(g.Namespaces, All) {
			return nil
		}
		patterns = append(patterns, g.Namespaces...)
		for _, b := range g.Businesses {
			patterns = append(patterns, namespacesOf(b)...)
		}
	}
	return patterns
}

// Limited reports whether a grant of an operation is for some hosts only.
func (p *Principal) Limited(op Operation) bool {
	return !p.Admin && slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.allows(op) && !g.everywhere() })
}

// OnHosts returns the reach of an operation on hosts instead of processes. Reading needs a grant for any namespace.
// Changing needs a grant for all namespaces, because it affects the data of every namespace there.
func (p *Principal) OnHosts(op Operation) Reach {
	return p.reach(op, func(g *Grant) bool {
		return slices.Contains(Members(Read), op) || slices.Contains(g.Namespaces, All)
	})
}

func (p *Principal) reach(op Operation, inScope func(*Grant) bool) Reach {
	if p.Admin {
		return Reach{op: op, everywhere: true}
	}
	r := Reach{op: op, targets: p.Targets}
	reads := slices.Contains(Members(Read), op)
	for i := range p.Grants {
		g := &p.Grants[i]
		switch {
		case !g.allows(op) || !inScope(g):
		case !reads && g.MaxTargets != 0 && g.MaxTargets < p.Targets:
			r.small = append(r.small, g.compiled())
		default:
			r.grants = append(r.grants, g.compiled())
			r.everywhere = r.everywhere || g.everywhere()
		}
	}
	return r
}

// Giving returns the grants that give an operation on processes of a namespace, each alone. An empty namespace is that
// of an operation on hosts, and host is nil for every host. short are the grants that give it on other hosts only, or
// for fewer targets.
func (p *Principal) Giving(op Operation, namespace string, host *Host) (giving, short []Grant) {
	for _, g := range p.Grants {
		one := Principal{Grants: []Grant{g}, Targets: p.Targets}
		reach := one.OnHosts(op)
		if namespace != "" {
			reach = one.On(op, namespace)
		}
		switch {
		case reach.Everywhere() || host != nil && reach.Covers(*host):
			giving = append(giving, g)
		case len(reach.grants)+len(reach.small) > 0:
			short = append(short, g)
		}
	}
	return giving, short
}

// OfHosts reports whether an operation is one on hosts instead of processes.
func (op Operation) OfHosts() bool {
	return slices.Contains([]Operation{ReadAgents, RenameAgents, LabelAgents, UpgradeAgents}, op)
}

// Everywhere reports whether the reach covers every host.
func (r Reach) Everywhere() bool { return r.everywhere && (r.and == nil || r.and.Everywhere()) }

// Nowhere reports whether the reach covers no host.
func (r Reach) Nowhere() bool {
	return !r.everywhere && len(r.grants) == 0 || r.and != nil && r.and.Nowhere()
}

// Covers reports whether the reach covers the host.
func (r Reach) Covers(h Host) bool {
	if r.and != nil && !r.and.Covers(h) {
		return false
	}
	return r.everywhere || slices.ContainsFunc(r.grants, func(g granted) bool { return g.onHost(h) })
}

// limit is the largest limit of the grants that would cover the host in a call with fewer targets; 0 if there is none.
func (r Reach) limit(h Host) (most int) {
	for _, g := range r.small {
		if g.onHost(h) {
			most = max(most, g.MaxTargets)
		}
	}
	return most
}

// Exceeds reports whether a grant has a limit below a number of targets.
func (p *Principal) Exceeds(targets int) bool {
	return !p.Admin && slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.MaxTargets != 0 && g.MaxTargets < targets
	})
}

// Missing is the first right that a call lacks, and the number of its other targets without a right.
type Missing struct {
	Operation Operation
	// Subject is the process ("namespace/name") or the namespace of the call; empty for an operation on hosts.
	Subject string
	// Host is the host of the missing right; empty if the right is missing on every host.
	Host string
	// Limit is the number of targets that the caller's right allows in one call, and Targets the larger number of the
	// call. Both are 0 if the caller has no such right.
	Limit, Targets int
	More           int
}

// Found notes one more missing right: it keeps the first and counts the others.
func (m *Missing) Found(op Operation, subject, host string) {
	if m.Operation != "" {
		m.More++
		return
	}
	m.Operation, m.Subject, m.Host = op, subject, host
}

// Check notes the missing right of a reach to a subject on a host, unless the reach covers the host.
func (m *Missing) Check(reach Reach, subject string, h Host) {
	op, second := reach.op, reach.and
	reach.and = nil
	switch limit := reach.limit(h); {
	case reach.Covers(h) && second != nil:
		m.Check(*second, subject, h)
	case reach.Covers(h):
	case limit != 0 && m.Operation == "":
		m.Operation, m.Subject, m.Limit, m.Targets = op, subject, limit, reach.targets
	case m.Limit != 0: // it concerns the whole call
	case reach.Nowhere():
		m.Found(op, subject, "")
	default:
		m.Found(op, subject, h.Address())
	}
}

// Any reports whether a right is missing.
func (m *Missing) Any() bool { return m.Operation != "" }

// What names the missing right, such as "start gse/nginx on 0:10.0.0.1".
func (m *Missing) What() string {
	var b strings.Builder
	b.WriteString(string(m.Operation))
	if m.Subject != "" {
		b.WriteString(" " + m.Subject)
	}
	if m.Host != "" {
		b.WriteString(" on " + m.Host)
	}
	if m.Limit != 0 {
		fmt.Fprintf(&b, ": the call has %d targets, and the right allows at most %d in one call", m.Targets, m.Limit)
	}
	return b.String()
}
