// Package linkstate is the pure state machine of an agent's link to its server: whether there is a link, whether
// the server knows the agent, and whether the agent still holds back what its disk tells it to begin. It decides when
// the agent introduces itself, when it takes orders, and when it begins work on its own. It owns no clock, no
// goroutine and no I/O: its caller feeds it events and performs the returned actions.
package linkstate

import "time"

// State is how the agent stands with its server.
type State string

// The states.
const (
	Offline    State = "offline"    // no link
	Linked     State = "linked"     // a link, over which the server has not accepted an introduction yet
	Introduced State = "introduced" // the server knows the agent; another introduction is due
	Confirmed  State = "confirmed"  // the server knows the agent, and each side has sent the other all it has
	Estranged  State = "estranged"  // the server does not accept the agent as the owner of its key
)

// States lists all states.
func States() []State { return []State{Offline, Linked, Introduced, Confirmed, Estranged} }

// Hold is why an agent that has just started does not begin the work that its disk asks for.
type Hold string

// The holds. Released is the last one: a start holds back once.
const (
	ForLink      Hold = "link"       // no link yet
	ForAnswer    Hold = "answer"     // a link, and no answer of the server yet
	ForKeyHolder Hold = "key holder" // another host used the same key a moment ago
	ForIdentity  Hold = "identity"   // the disk is a copy of another host's, as far as the server knows
	Released     Hold = "released"   // nothing is held back any more
)

// How long each hold lasts at most. A hold for an identity has no limit.
const (
	linkLimit   = 5 * time.Second
	answerLimit = 3 * time.Second
	// keyHolderLimit is longer than a server takes to find out whether the other host is still there.
	keyHolderLimit = 30 * time.Second
)

// Machine is the link state of one agent: a value, to be copied and compared.
type Machine struct {
	State State
	// Sent tells that an introduction is under way, that the agent has nothing newer to introduce, and that the link
	// is the same.
	Sent bool
	Hold Hold
}

// New returns the machine of an agent that has just started, and the Arm that begins its life.
func New() (Machine, []Action) {
	return Machine{State: Offline, Hold: ForLink}, []Action{Arm{After: linkLimit}}
}

// MustIntroduce tells that the next report introduces the agent.
func (m Machine) MustIntroduce() bool { return m.State != Confirmed }

// TakesOrders tells that the server knows the agent over the present link. Before that the agent may be the copy of
// another host, or may not know the key that signs the orders.
func (m Machine) TakesOrders() bool { return m.State == Introduced || m.State == Confirmed }

// HoldsBack tells that the agent begins nothing that depends on the correctness of its disk.
func (m Machine) HoldsBack() bool { return m.Hold != Released }

// An Event is an input of the machine.
type Event interface{ event() }

// The events.
type (
	// Connected tells that there is a new link.
	Connected struct{}
	// Lost tells that the link is down.
	Lost struct{}
	// Outdated tells that the last introduction is out of date, or that the server asks for another one.
	Outdated struct{}
	// Sent tells that an introduction is sent now.
	Sent struct{}
	// Accepted tells that the server has accepted an introduction, and whether its answer had effects that require
	// another one.
	Accepted struct{ More bool }
	// Refused tells that the server has answered without accepting the report.
	Refused struct{}
	// Rejected tells that the server does not accept the agent as the owner of its key. Certain tells that another
	// host is the owner.
	Rejected struct{ Certain bool }
	// Expired tells that the timer has expired.
	Expired struct{}
)

func (Connected) event() {}
func (Lost) event()      {}
func (Outdated) event()  {}
func (Sent) event()      {}
func (Accepted) event()  {}
func (Refused) event()   {}
func (Rejected) event()  {}
func (Expired) event()   {}

// An Action is an output of the machine: the caller must perform the actions in the given order.
type Action interface{ action() }

// The actions.
type (
	// Introduce asks for an introduction at once. Without it the next report is early enough.
	Introduce struct{}
	// Arm sets the timer, and replaces any other.
	Arm struct{ After time.Duration }
	// Disarm stops the timer.
	Disarm struct{}
	// Release tells to begin the work that was held back. Unconfirmed tells that the server has not confirmed the
	// disk.
	Release struct{ Unconfirmed bool }
)

func (Introduce) action() {}
func (Arm) action()       {}
func (Disarm) action()    {}
func (Release) action()   {}
