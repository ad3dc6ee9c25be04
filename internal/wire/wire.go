// Package wire holds the messages between server and agent, their subjects, and the signature that authenticates an
// order. It moves nothing itself: fabric does.
package wire

import (
	"time"

	"drover/internal/process"
)

// Version is the version of every message here. A reader refuses a greater one.
const Version = 1

// MaxMessage is the largest message in bytes that either side sends or reads.
const MaxMessage = 8 << 20

// Order asks for one operation on one process. Item is its id: an agent that has seen it answers with what came of it
// and never runs it again.
type Order struct {
	Item    string        `json:"item"`
	Process process.ID    `json:"process"`
	Op      process.Op    `json:"op"`
	Spec    *process.Spec `json:"spec,omitempty"`
	// Actor is whose wish it is.
	Actor process.Actor `json:"actor,omitzero"`
	// Groups is for process.SetGroups.
	Groups []process.Group `json:"groups,omitempty"`
}

// Manifest is a batch of orders for one agent.
type Manifest struct {
	Version int       `json:"version"`
	Agent   string    `json:"agent"`
	Issued  time.Time `json:"issued"`
	// Expires is when an order that has not begun may no longer begin.
	Expires time.Time `json:"expires"`
	// Unasked is until when its orders may begin without a question. Whoever gets it later asks first whether they are still wanted
	// (Report.Open): the server may have given them up.
	Unasked time.Time `json:"unasked"`
	Orders  []Order   `json:"orders"`
	// Desired is set in the answer to an introduction.
	Desired *Desired `json:"desired,omitempty"`
	// Trust is what the agent is to go by from now on, in the place of an older Enrolment.
	Trust *Enrolment `json:"trust,omitempty"`
}

// Receipt answers a manifest once every order that Accepted mentions is journalled, now or when it came before. Refused holds orders that
// were not, with why.
type Receipt struct {
	Version  int               `json:"version"`
	Accepted []string          `json:"accepted,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"`
	// Answers are the outcomes of the queries among the orders that were answered at once. They are told here and nowhere else: the
	// agent keeps nothing of them, and is asked again if the receipt is lost.
	Answers map[string]process.Outcome `json:"answers,omitempty"`
	// Error refuses every order that the receipt does not mention otherwise.
	Error string `json:"error,omitempty"`
}

// Progress tells what became of one order. Either it has begun, and Limit is how many seconds it may take from now; or
// it is done, and Outcome is set.
type Progress struct {
	Item    string           `json:"item"`
	Limit   int              `json:"limit,omitempty"`
	Outcome *process.Outcome `json:"outcome,omitempty"`
}

// Observation is the state of one process that the agent knows.
type Observation struct {
	Process process.ID     `json:"process"`
	Status  process.Status `json:"status"`
	// Spec is the spec in force; nil leaves the one the server has. With a revision that was not told before there is always one.
	Spec *process.Spec `json:"spec,omitempty"`
	// Gone says that the agent has forgotten the process, with the revision in Status.
	Gone bool `json:"gone,omitempty"`
}

// Hello introduces an agent after each (re)connect. The report that carries it holds the state of every process it knows; where it tells
// what is on the disk, the next reports may hold some or all of these.
type Hello struct {
	Cloud   int    `json:"cloud"`
	IP      string `json:"ip"`
	ID      string `json:"id,omitempty"` // a stable id beside cloud:ip, if it has one
	Build   string `json:"build"`
	BootID  string `json:"boot_id"`
	Started int64  `json:"started"` // Unix seconds
	Root    bool   `json:"root"`
	Host    Host   `json:"host,omitzero"`
	// Groups are the GroupsDigest of each namespace that the agent has process groups of.
	Groups map[string]string `json:"groups,omitempty"`
	// Disk is nil where the agent can't say what is on it.
	Disk *Disk `json:"disk,omitempty"`
	// Name is what the host calls itself. Policy is what its owner lets drover do there, in one line; empty where there is no policy.
	Name   string `json:"name,omitempty"`
	Policy string `json:"policy,omitempty"`
}

// Host is what an agent's machine is; what is not known is zero.
type Host struct {
	OS     string `json:"os,omitempty"`     // such as "linux"
	Arch   string `json:"arch,omitempty"`   // as uname(1) says it, such as "x86_64"
	CPUs   int    `json:"cpus,omitempty"`   // processors that can be used
	Memory int64  `json:"memory,omitempty"` // bytes
}

// Report is what an agent tells: any part may be empty; an empty report is a heartbeat.
type Report struct {
	Version int `json:"version"`
	// Session is that of this run of the agent, and as a text greater than those of earlier runs; Number is the place of the report in it:
	// each has a higher one than those before. A server takes no state from a report after it has had a later one.
	Session string `json:"session,omitempty"`
	Number  int64  `json:"number,omitempty"`
	// At is the clock of the host, in Unix milliseconds.
	At       int64         `json:"at,omitempty"`
	Hello    *Hello        `json:"hello,omitempty"`
	Progress []Progress    `json:"progress,omitempty"`
	Observed []Observation `json:"observed,omitempty"`
	// Events are in their order. An agent keeps each until it has been acknowledged; a server takes each once.
	Events []process.Event `json:"events,omitempty"`
	// Trust is which Enrolment the agent goes by; nil from one that cannot take another.
	Trust *TrustHeld `json:"trust,omitempty"`
	// Place tells the host and data directory that the report comes from from every other, so that a copy of an agent is noticed.
	// It means nothing by itself, and changes when the host is rebooted.
	Place string `json:"place,omitempty"`
	// Open are the orders that the agent has in its journal and does not begin before it knows that they are still wanted.
	Open []string `json:"open,omitempty"`
	// Proof is what the last answer asked for by Prove. A report with it is signed, whatever else is in it.
	Proof string `json:"proof,omitempty"`
}

// ReportAck answers a report after all of it is committed. An agent keeps an outcome until it has been acknowledged.
type ReportAck struct {
	Version int `json:"version"`
	// At is the clock of the servers, in Unix milliseconds.
	At int64 `json:"at,omitempty"`
	// Ended are those of Report.Open that are at their end, and must not begin. The others are wanted.
	Ended []string `json:"ended,omitempty"`
	// Hello asks the agent to introduce itself again: this server does not know it.
	Hello bool `json:"hello,omitempty"`
	// Prove asks the agent to say these words at once in a report, as its Proof: so that it is certain that the agent itself says, and says
	// now, where it is and what it trusts.
	Prove string `json:"prove,omitempty"`
	Error string `json:"error,omitempty"`
	// Session is set, beside Error, where the introduction was refused because the agent has introduced itself in this session, which is a
	// greater one: its clock was set back, and it is to take a session beyond that.
	Session string `json:"session,omitempty"`
	// Desired is the sealed manifest that answers an introduction; empty where the agent has all that it should have.
	Desired []byte `json:"desired,omitempty"`
	// Trust is a sealed manifest with what the agent is to go by from now on; empty where it does already.
	Trust []byte `json:"trust,omitempty"`
	// Stranger is set, beside Error, where the agent may not be the one whose key it has.
	Stranger *Stranger `json:"stranger,omitempty"`
}
