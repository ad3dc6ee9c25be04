// Package wire holds the messages between server and agent, the subjects they travel on, and the signature that makes an
// order an order. It moves nothing itself: fabric does.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"

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
	Orders  []Order   `json:"orders"`
	// Desired is set in the answer to an introduction.
	Desired *Desired `json:"desired,omitempty"`
}

// Envelope is a manifest as it travels: the exact bytes that were signed, the public key, the signature.
type Envelope struct {
	Manifest  []byte `json:"manifest"`
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// Seal encodes and signs a manifest with the server's operation key.
func Seal(m Manifest, key nkeys.KeyPair) ([]byte, error) {
	m.Version = Version
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode manifest: %w", err)
	}
	signature, err := key.Sign(body)
	if err != nil {
		return nil, fmt.Errorf("cannot sign manifest: %w", err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot sign manifest: %w", err)
	}
	return json.Marshal(Envelope{Manifest: body, Key: public, Signature: signature})
}

// Reasons why an envelope is refused.
var (
	ErrUnknownKey = errors.New("signed by a key that is not pinned")
	ErrForged     = errors.New("signature does not match")
	ErrNotForMe   = errors.New("addressed to another agent")
	ErrExpired    = errors.New("expired")
	ErrVersion    = errors.New("written by a newer version")
)

// Open verifies an envelope against the pinned public keys and the reader's own name, and returns the manifest. It does
// not look at Expires: an order that was already accepted may still be asked about.
func Open(data []byte, pinned []string, agent string) (*Manifest, error) {
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("cannot read envelope: %w", err)
	}
	known := false
	for _, k := range pinned {
		known = known || k == e.Key
	}
	if !known {
		return nil, ErrUnknownKey
	}
	public, err := nkeys.FromPublicKey(e.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot read key: %w", err)
	}
	if err := public.Verify(e.Manifest, e.Signature); err != nil {
		return nil, ErrForged
	}
	var m Manifest
	if err := json.Unmarshal(e.Manifest, &m); err != nil {
		return nil, fmt.Errorf("cannot read manifest: %w", err)
	}
	switch {
	case m.Version > Version:
		return nil, ErrVersion
	case m.Agent != agent:
		return nil, ErrNotForMe
	}
	return &m, nil
}

// Receipt answers a manifest once every order in it is journalled. Refused holds the orders that were not, with why.
type Receipt struct {
	Version  int               `json:"version"`
	Accepted []string          `json:"accepted,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"`
	// Error refuses the whole manifest.
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
	Version  int           `json:"version"`
	Hello    *Hello        `json:"hello,omitempty"`
	Progress []Progress    `json:"progress,omitempty"`
	Observed []Observation `json:"observed,omitempty"`
	// Events are in their order. An agent keeps each until it has been acknowledged; a server takes each once.
	Events []process.Event `json:"events,omitempty"`
}

// ReportAck answers a report after all of it is committed. An agent keeps an outcome until it has been acknowledged.
type ReportAck struct {
	Version int `json:"version"`
	// Hello asks the agent to introduce itself again: this server does not know it.
	Hello bool   `json:"hello,omitempty"`
	Error string `json:"error,omitempty"`
	// Desired is the sealed manifest that answers an introduction; empty where the agent has all that it should have.
	Desired []byte `json:"desired,omitempty"`
}

// Enrolment is what a joined agent needs to find its server and to trust it. It holds no secret: the agent's private key is
// made on the host and never leaves it.
type Enrolment struct {
	// URLs are the addresses of the fabric, JWT the agent's user token for it.
	URLs []string `json:"urls"`
	JWT  string   `json:"jwt"`
	// CA is the certificate of the authority that the fabric's own is verified by, in PEM; empty on loopback, without TLS.
	CA string `json:"ca,omitempty"`
	// ManifestKeys are the public keys that may sign orders.
	ManifestKeys []string `json:"manifest_keys"`
	// Cloud and IP are the name "cloud:ip" that callers use; ID is a stable id beside it, if there is one.
	Cloud int    `json:"cloud"`
	IP    string `json:"ip"`
	ID    string `json:"id,omitempty"`
}
