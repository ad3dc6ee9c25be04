// Package access defines callers and their rights: grants, limits, the principal of a call, and how to make and
// compare secrets and tokens. It decides and stores nothing: package gate identifies a caller, and the store keeps
// the grants of an app.
package access

import (
	"fmt"
	"slices"
	"strings"

	"drover/internal/process"
)

// Operation is something that an app may have a right to. Those on processes have the names of process.Op; the others
// are about hosts.
type Operation string

// The operations that are no process.Op.
const (
	GetGroup     Operation = "get-group"     // read the limits that processes of a namespace share on a host
	SetGroup     Operation = "set-group"     // change them
	ReadAgents   Operation = "read-agents"   // state and facts of agents
	RenameAgents Operation = "rename-agents" // give a host another agent id
)

// Groups stand for several operations in a grant.
const (
	All     = "*"       // every operation
	Read    = "read"    // all that changes nothing
	Operate = "operate" // all that is done to a process that is set up already
	Setup   = "setup"   // register, update, unregister and the shared limits
)

// OperationOf returns the right that a process operation needs.
func OperationOf(op process.Op) Operation {
	if op == process.SetGroups {
		return SetGroup
	}
	return Operation(op)
}

// Operations lists every operation there is.
func Operations() []Operation {
	return slices.Concat(Members(Read), Members(Operate), Members(Setup), []Operation{RenameAgents})
}

// Groups lists the names that stand for several operations.
func Groups() []string { return []string{All, Read, Operate, Setup} }

// Members returns the operations of a group, or nothing when there is no such group.
func Members(group string) []Operation {
	switch group {
	case All:
		return Operations()
	case Read:
		return []Operation{Operation(process.Query), GetGroup, ReadAgents}
	case Operate:
		return operationsOf(process.Operating())
	case Setup:
		return operationsOf(process.SettingUp())
	default:
		return nil
	}
}

func operationsOf(ops []process.Op) []Operation {
	list := make([]Operation, len(ops))
	for i, op := range ops {
		list[i] = OperationOf(op)
	}
	return list
}

// Host is an agent as rights see it. What is not known of it is empty, and the area of one that nobody knows is
// NoArea.
type Host struct {
	Area int
	IP   string
	ID   string // stable id
	// Alias is another id, which a caller has given the host.
	Alias string
}

// NoArea is the area of a host that is in none.
const NoArea = -1

// Address is the host as "area:ip", or its id where it has no address.
func (h Host) Address() string {
	if h.IP == "" {
		return h.ID
	}
	return fmt.Sprintf("%d:%s", h.Area, h.IP)
}

// Limits bound what an app may ask for; zero means no bound.
type Limits struct {
	// Rate is how many calls a second are let in, Burst how many at once after a pause (at least 1 where there is a rate).
	Rate  float64 `json:"rate,omitempty"`
	Burst int     `json:"burst,omitempty"`
	// Concurrent is how many calls may be under way at the same time.
	Concurrent int `json:"concurrent,omitempty"`
}

// Validate reports what is wrong with the limits.
func (l Limits) Validate() error {
	switch {
	case !(l.Rate >= 0 && l.Rate <= 1e6): // refuses NaN too
		return fmt.Errorf("rate is %v: expected 0 (no limit) to 1000000 calls a second", l.Rate)
	case l.Burst < 0 || l.Burst > 1e6:
		return fmt.Errorf("burst is %d: expected 0 to 1000000", l.Burst)
	case l.Concurrent < 0 || l.Concurrent > 1e6:
		return fmt.Errorf("concurrent is %d: expected 0 (no limit) to 1000000", l.Concurrent)
	default:
		return nil
	}
}

// Principal is who a call runs as. The zero principal may do nothing.
type Principal struct {
	// App is the code of the app; empty for an operator of this machine, who sees the tasks of all apps.
	App  string
	User string
	// Admin has every right, and may manage apps, users and the record of calls.
	Admin  bool
	Grants []Grant
	Limits Limits
}

// LocalAdmin is the operator of this machine, who proved it by the socket's peer credentials.
func LocalAdmin(uid uint32) Principal {
	return Principal{User: fmt.Sprintf("uid:%d", uid), Admin: true}
}

// Reach is where a principal may do one operation.
type Reach struct {
	everywhere bool
	grants     []*Grant
}

// On returns where the principal may do op to processes of the namespace.
func (p *Principal) On(op Operation, namespace string) Reach {
	return p.reach(op, func(g *Grant) bool { return g.inScope(namespace) })
}

// Namespaces returns the patterns of the namespaces in which the principal may do op somewhere; nil is every one of them.
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

// OnHosts returns where the principal may do an operation that is about hosts and not about processes. Reading needs a
// grant for any namespace, changing one for all of them: it touches what every namespace has there.
func (p *Principal) OnHosts(op Operation) Reach {
	return p.reach(op, func(g *Grant) bool {
		return slices.Contains(Members(Read), op) || slices.Contains(g.Namespaces, All)
	})
}

func (p *Principal) reach(op Operation, inScope func(*Grant) bool) Reach {
	if p.Admin {
		return Reach{everywhere: true}
	}
	var r Reach
	for i := range p.Grants {
		if g := &p.Grants[i]; g.allows(op) && inScope(g) {
			r.grants = append(r.grants, g)
			r.everywhere = r.everywhere || g.everywhere()
		}
	}
	return r
}

// Everywhere reports whether the operation is allowed on every host.
func (r Reach) Everywhere() bool { return r.everywhere }

// Nowhere reports whether it is allowed on none.
func (r Reach) Nowhere() bool { return !r.everywhere && len(r.grants) == 0 }

// Covers reports whether it is allowed on the host.
func (r Reach) Covers(h Host) bool {
	return r.everywhere || slices.ContainsFunc(r.grants, func(g *Grant) bool { return g.onHost(h) })
}

// Missing is the first right that a call lacks, and how many more of its targets lack one.
type Missing struct {
	Operation Operation
	// Subject is the process ("namespace/name") or the namespace that it was about; empty where it was about hosts.
	Subject string
	// Host is where; empty where it is missing on every host.
	Host string
	More int
}

// Found notes one more lacking right: the first is kept, the others are counted.
func (m *Missing) Found(op Operation, subject, host string) {
	if m.Operation != "" {
		m.More++
		return
	}
	m.Operation, m.Subject, m.Host = op, subject, host
}

// Any reports whether a right is lacking.
func (m *Missing) Any() bool { return m.Operation != "" }

// What says which right is lacking, such as "start gse/nginx on 0:10.0.0.1".
func (m *Missing) What() string {
	var b strings.Builder
	b.WriteString(string(m.Operation))
	if m.Subject != "" {
		b.WriteString(" " + m.Subject)
	}
	if m.Host != "" {
		b.WriteString(" on " + m.Host)
	}
	return b.String()
}
