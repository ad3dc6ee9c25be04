package frame

import "fmt"

// Kind is the kind of a frame. Its values never change their meaning.
type Kind uint8

// The kinds of frames. Table has what each is.
const (
	// Orders is a batch of orders for an agent, and Receipt says which of them are on its disk.
	Orders Kind = iota + 1
	Receipt
	// Question is about a log or about running processes, and Reply has the text.
	Question
	Reply
	// Report is what an agent reports, and Ack says that a server has stored it.
	Report
	Ack
	// Ping asks whether an agent is there, and Here says so.
	Ping
	Here
	// Beat is the heartbeat of a proxy, and Digest says which enrolment it should have. Change says that the enrolment
	// may have changed.
	Beat
	Digest
	Change
	// Refresh asks for the enrolment of a proxy, and Enrolment has it.
	Refresh
	Enrolment
	// Join is a host's request to join, which a proxy passes on, and Joined has the answer to the host.
	Join
	Joined
	// News is what a server tells all others.
	News
	// Links asks another server which agents it hears, and States says so.
	Links
	States
	end
)

// Side is a side of a pair.
type Side uint8

// The sides of a pair: the servers of a fleet, and one of its members. Servers is both sides of the pair that the
// servers have among themselves.
const (
	Fleet Side = iota + 1
	Member
	Servers
)

// Row is what is known of a kind of frames.
type Row struct {
	Name string
	// From is the side that sends the kind.
	From Side
	// Answers is the kind that it answers; 0 for a frame that answers none.
	Answers Kind
	// Largest is the largest size of a body in bytes.
	Largest int
}

const (
	fromFleet  = 8 << 20
	fromMember = 1 << 20
	small      = 64 << 10
)

// table has the row of each kind, at its number.
//
//nolint:gochecknoglobals // a table that nothing changes
var table = [end]Row{
	Orders:   {Name: "orders", From: Fleet, Largest: fromFleet},
	Receipt:  {Name: "receipt", From: Member, Answers: Orders, Largest: fromMember},
	Question: {Name: "question", From: Fleet, Largest: fromMember},
	Reply:    {Name: "reply", From: Member, Answers: Question, Largest: fromMember},
	Report:   {Name: "report", From: Member, Largest: fromMember},
	Ack:      {Name: "ack", From: Fleet, Answers: Report, Largest: fromFleet},
	Ping:     {Name: "ping", From: Fleet},
	Here:     {Name: "here", From: Member, Answers: Ping},

	Beat:      {Name: "beat", From: Member, Largest: small},
	Digest:    {Name: "digest", From: Fleet, Answers: Beat, Largest: small},
	Change:    {Name: "change", From: Fleet},
	Refresh:   {Name: "refresh", From: Member, Largest: small},
	Enrolment: {Name: "enrolment", From: Fleet, Answers: Refresh, Largest: fromFleet},
	Join:      {Name: "join", From: Member, Largest: small},
	Joined:    {Name: "joined", From: Fleet, Answers: Join, Largest: fromMember},

	News:   {Name: "news", From: Servers, Largest: fromFleet},
	Links:  {Name: "links", From: Servers, Largest: small},
	States: {Name: "states", From: Servers, Answers: Links, Largest: fromFleet},
}

// Kinds returns all kinds, in their order.
func Kinds() []Kind {
	var all []Kind
	for k := Orders; k < end; k++ {
		all = append(all, k)
	}
	return all
}

// Row returns the row of a known kind, and the zero row of any other.
func (k Kind) Row() Row {
	row, _ := k.row()
	return row
}

func (k Kind) row() (Row, bool) {
	if k == 0 || k >= end {
		return Row{}, false
	}
	return table[k], true
}

// String returns the name of a kind.
func (k Kind) String() string {
	if row, ok := k.row(); ok {
		return row.Name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}
