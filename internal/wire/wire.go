// Package wire holds the messages between server and agent, their subjects, and the signatures of those that are not
// frames. It moves nothing itself: fabric does.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drover/internal/process"
)

// Version is the version of every message here. A reader rejects a greater version.
const Version = 1

// MaxMessage is the largest message in bytes that either side sends or reads.
const MaxMessage = 8 << 20

// MaxManifest is the largest encoded manifest in bytes: a message has room for it and for what seals it.
const MaxManifest = MaxMessage - 1<<10

// Order asks for one operation on one process. Item is its id. If an agent has seen the item already, it answers with
// the outcome and never runs it again.
type Order struct {
	Item    string        `json:"item"`
	Process process.ID    `json:"process"`
	Op      process.Op    `json:"op"`
	Spec    *process.Spec `json:"spec,omitempty"`
	// Actor is the caller of the operation.
	Actor process.Actor `json:"actor,omitzero"`
	// Groups is for process.SetGroups.
	Groups []process.Group `json:"groups,omitempty"`
	// Ordered tells that the operation comes from drover's own API: it waits for those on other processes, as the
	// specs say (process.Spec.After), and a start does not begin a second copy (process.Beside).
	Ordered bool `json:"ordered,omitempty"`
	// Removes tells that the operation is the first part of a removal: what starts later in the namespace waits for it.
	Removes bool `json:"removes,omitempty"`
}

// ErrVersion rejects a message of a newer version.
var ErrVersion = errors.New("written by a newer version")

// Manifest is a batch of orders for one agent: the body of a frame of kind orders, which names the agent.
type Manifest struct {
	Version int       `json:"version"`
	Issued  time.Time `json:"issued"`
	// Expires is the time after which an order must not begin.
	Expires time.Time `json:"expires"`
	// Unasked is the time until which its orders may begin without a question. After that time the agent first asks
	// whether they are still wanted (Report.Open): the server may have given them up.
	Unasked time.Time `json:"unasked,omitzero"`
	Orders  []Order   `json:"orders"`
	// Cancel are orders that must not begin any more, without their specs. The agent ends those that have not begun,
	// also those that it has not received yet, and answers as for Orders. Their outcomes follow in a report.
	Cancel []Order `json:"cancel,omitempty"`
	// Withhold are processes that the agent must not relaunch by itself for some time.
	Withhold []Withheld `json:"withhold,omitempty"`
}

// Encode returns the manifest in its form on the wire.
func (m Manifest) Encode() ([]byte, error) {
	m.Version = Version
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode manifest: %w", err)
	}
	return body, nil
}

// ReadManifest decodes a manifest. It does not check Expires: the server may still ask about an accepted order.
func ReadManifest(body []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("cannot read manifest: %w", err)
	}
	if m.Version > Version {
		return nil, fmt.Errorf("cannot read manifest: %w", ErrVersion)
	}
	return &m, nil
}

// Question is the body of a frame of kind question. Exactly one of the pointers is set.
type Question struct {
	Version int            `json:"version"`
	Log     *LogQuestion   `json:"log,omitempty"`
	Live    *LiveQuestion  `json:"live,omitempty"`
	Usage   *UsageQuestion `json:"usage,omitempty"`
}

// Withheld is a process, with its copies, that an agent must not relaunch by itself while the process has the spec of
// that revision of its namespace. An operation of a person goes on as always.
type Withheld struct {
	Process  process.ID `json:"process"`
	Revision int64      `json:"revision,omitempty"`
	// Seconds is how long, from the arrival on; 0 ends an earlier word.
	Seconds int `json:"seconds,omitempty"`
	// Text says why, for people.
	Text string `json:"text,omitempty"`
}

// Receipt answers a manifest once every order in Accepted is journalled, now or earlier. Refused holds the rejected
// orders and the reasons.
type Receipt struct {
	Version  int               `json:"version"`
	Accepted []string          `json:"accepted,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"`
	// Begun has those of Accepted that have begun already, with their largest remaining time in seconds. Reports tell
	// of the others, and repeat these if they last.
	Begun map[string]int `json:"begun,omitempty"`
	// Answers are the outcomes of queries that the agent answered at once. They travel only here. The agent keeps no
	// copy; if the receipt is lost, the server asks again.
	Answers map[string]process.Outcome `json:"answers,omitempty"`
	// Error rejects every order that the receipt does not mention otherwise.
	Error string `json:"error,omitempty"`
}

// Progress reports on one order. Either the order has begun, and Limit is its largest remaining time in seconds; or
// the order is done, and Outcome is set.
type Progress struct {
	Item    string           `json:"item"`
	Limit   int              `json:"limit,omitempty"`
	Outcome *process.Outcome `json:"outcome,omitempty"`
}

// Observation is the state of one process that the agent knows.
type Observation struct {
	Process process.ID     `json:"process"`
	Status  process.Status `json:"status"`
	// Spec is the spec in force; nil means that the server's spec is current. A new revision always comes with its
	// spec.
	Spec *process.Spec `json:"spec,omitempty"`
	// Gone means that the agent removed the process, with the revision in Status.
	Gone bool `json:"gone,omitempty"`
}

// Hello introduces an agent after each connect. Its report holds the state of every process of the agent. If Disk is
// set, the next reports hold these states, unless the answer is Known.
type Hello struct {
	Cloud   int    `json:"cloud"`
	IP      string `json:"ip"`
	ID      string `json:"id,omitempty"` // a stable id beside cloud:ip, if it has one
	Build   string `json:"build"`
	BootID  string `json:"boot_id"`
	Started int64  `json:"started"` // Unix seconds
	Root    bool   `json:"root"`
	Host    Host   `json:"host,omitzero"`
	// Groups are the GroupsDigests of the namespaces that have process groups on the agent.
	Groups map[string]string `json:"groups,omitempty"`
	// Disk is nil if the agent does not know the contents of its disk.
	Disk *Disk `json:"disk,omitempty"`
	// Name is the host's own name. Policy is the policy of the host's owner for drover in one line; empty without a
	// policy.
	Name   string `json:"name,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Wanted is the version that the last order on the agent itself named, and Upgrade says how that order ended. Both
	// are empty without such an order.
	Wanted  string `json:"wanted,omitempty"`
	Upgrade string `json:"upgrade,omitempty"`
}

// Host describes an agent's machine; unknown values are zero.
type Host struct {
	OS     string `json:"os,omitempty"`     // such as "linux"
	Arch   string `json:"arch,omitempty"`   // in the form of uname(1), such as "x86_64"
	CPUs   int    `json:"cpus,omitempty"`   // usable processors
	Memory int64  `json:"memory,omitempty"` // bytes
	// Distribution and Version are ID and VERSION_ID of os-release(5), Kernel is the release of uname(2).
	Distribution string  `json:"distribution,omitempty"`
	Version      string  `json:"version,omitempty"`
	Kernel       string  `json:"kernel,omitempty"`
	Disks        []Mount `json:"disks,omitempty"`
	// Full are directories of the agent whose file systems have no room, and since when, in Unix milliseconds.
	Full map[string]int64 `json:"full,omitempty"`
	// Notes say what is wrong with the agent itself.
	Notes []string `json:"notes,omitempty"`
	// Labels are the labels of the agent's configuration, and Facts the facts of the owner of the host. If Gathering
	// is set, the agent does not know the facts yet, and will introduce itself again.
	Labels    map[string]string `json:"labels,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Gathering bool              `json:"gathering,omitempty"`
}

// Mount is a file system of a host on a block device.
type Mount struct {
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes
}

// Report is a report of an agent. Any part may be empty; an empty report is a heartbeat.
type Report struct {
	Version int `json:"version"`
	// Session identifies this run of the agent, and sorts after the sessions of earlier runs. Number rises with each
	// report of a session. A server takes no state from a report after a later report.
	Session string `json:"session,omitempty"`
	Number  int64  `json:"number,omitempty"`
	// Told is the number of the last acknowledged report of the session that has told states; 0 without one.
	Told int64 `json:"told,omitempty"`
	// Incarnation is ReportAck.Incarnation as the agent knows it; empty before its first introduction. Whole is set if
	// the servers have the states and events of the agent with this report, for the first time since an introduction.
	Incarnation string `json:"incarnation,omitempty"`
	Whole       bool   `json:"whole,omitempty"`
	// At is the clock of the host, in Unix milliseconds.
	At       int64         `json:"at,omitempty"`
	Hello    *Hello        `json:"hello,omitempty"`
	Progress []Progress    `json:"progress,omitempty"`
	Observed []Observation `json:"observed,omitempty"`
	// Events are in order, each a process.Event as the agent encoded it; see EncodeReport. An agent keeps each event
	// until the server acknowledges it; a server takes each event once.
	Events [][]byte `json:"-"`
	// Trust identifies the Enrolment that the agent uses; nil if the agent cannot accept another.
	Trust *TrustHeld `json:"trust,omitempty"`
	// Sealing is a SealingChange, signed by SignSealing, until a server has answered it; empty for none.
	Sealing []byte `json:"sealing,omitempty"`
	// Place identifies the host and the data directory of the report, so that the server notices a copy of an agent.
	// It has no meaning by itself, and changes with a reboot.
	Place string `json:"place,omitempty"`
	// Open are the journalled orders that the agent does not begin before it knows that they are still wanted.
	Open []string `json:"open,omitempty"`
	// Load is how busy the host is; nil if that has hardly changed.
	Load *Load `json:"load,omitempty"`
}

// Load is how busy a host is, in tenths of a percent of the whole machine: the processors over the last minute, and
// the memory in use.
type Load struct {
	CPU    int `json:"cpu"`
	Memory int `json:"memory"`
}

// ReportAck answers a report after the server has committed all of it. An agent keeps an outcome until the server
// acknowledges it.
type ReportAck struct {
	Version int `json:"version"`
	// At is the clock of the servers, in Unix milliseconds.
	At int64 `json:"at,omitempty"`
	// Beat is the interval in seconds at which the agent has to report at least; 0 means the usual 5 s.
	Beat int `json:"beat,omitempty"`
	// Ended are the orders of Report.Open that have ended and must not begin. The other orders are still wanted.
	Ended []string `json:"ended,omitempty"`
	// Hello asks the agent to introduce itself again: this server does not know it.
	Hello bool   `json:"hello,omitempty"`
	Error string `json:"error,omitempty"`
	// Session is set, beside Error, if the server rejected the introduction because the agent has introduced itself
	// in this greater session: its clock was set back. The agent must use a session beyond it.
	Session string `json:"session,omitempty"`
	// Incarnation is the incarnation of the database. If the agent knows another one, its report counts only if it is
	// an introduction: the database was restored from a copy, and the agent tells anew what it has.
	Incarnation string `json:"incarnation,omitempty"`
	// Heard answers an introduction if Incarnation is set: the last number of each of the agent's latest streams of
	// events that the database has. The agent sends the events after them again.
	Heard map[string]uint64 `json:"heard,omitempty"`
	// Known answers an introduction: the servers have all states up to Report.Told, and only those that have changed
	// since have to follow.
	Known bool `json:"known,omitempty"`
	// Desired answers an introduction; nil if the agent's records are current.
	Desired *Desired `json:"desired,omitempty"`
	// Trust is the agent's new trust, signed as SealTrust does; empty if its trust is current.
	Trust []byte `json:"trust,omitempty"`
	// Stranger is set, beside Error, if the server doubts the identity of the agent.
	Stranger *Stranger `json:"stranger,omitempty"`
}
