package v1

import "time"

// JoinToken lets hosts join.
type JoinToken struct {
	ID string `json:"id"`
	// State is one of the constants below, such as TokenOpen.
	State string `json:"state"`
	// Role is the kind of program that joins with the token: agent or proxy.
	Role     string            `json:"role"`
	Cloud    int               `json:"cloud"`
	Labels   map[string]string `json:"labels"`
	Business int64             `json:"business,omitempty"`
	// Replaces is the former host whose place the joining host takes; empty for new hosts.
	Replaces  string     `json:"replaces,omitempty"`
	Note      string     `json:"note,omitempty"`
	Uses      int        `json:"uses"`
	Used      int        `json:"used"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	// Token is set only in the answer to the call that created it. The server cannot show it again.
	Token string `json:"token,omitempty"`
}

// The states of a JoinToken: hosts can join with it, all its uses are used up, its time is over, or it was revoked.
const (
	TokenOpen    = "open"
	TokenSpent   = "spent"
	TokenExpired = "expired"
	TokenRevoked = "revoked"
)

// JoinTokenRequest asks for a new join token.
type JoinTokenRequest struct {
	// Role is the kind of program that joins with the token: agent (the default) or proxy.
	Role string `json:"role,omitempty"`
	// Cloud is the area that hosts join; every host that joins gets Labels and Business.
	Cloud    int               `json:"cloud"`
	Labels   map[string]string `json:"labels,omitempty"`
	Business int64             `json:"business,omitempty"`
	// Replaces is the id, cloud:ip or key of a host of the area that is offline. The host that joins with the token
	// takes its place, with its processes, its labels and its history; the server rejects the former host from then on.
	// Uses is 1 then.
	Replaces string `json:"replaces,omitempty"`
	Note     string `json:"note,omitempty"`
	// Uses is the number of hosts that may join with the token, 1 to 100,000.
	Uses int `json:"uses"`
	// TTLSeconds is the lifetime of the token in seconds, at most 366 days.
	TTLSeconds int64 `json:"ttl_seconds"`
}

// Proxy is a proxy of an area without a route to the servers.
type Proxy struct {
	Name string `json:"name"`
	Area int    `json:"area"`
	// Key is the public key of the proxy.
	Key string `json:"key"`
	// Advertise is the address by which the agents of the area reach the proxy, host:port.
	Advertise string `json:"advertise"`
	Online    bool   `json:"online"`
	// Agents is the number of connected agents.
	Agents   int        `json:"agents"`
	Build    string     `json:"build"`
	LastSeen *time.Time `json:"last_seen,omitempty"`
	JoinedAt time.Time  `json:"joined_at"`
}

// Key is a key by which agents trust the server. It holds no secret.
type Key struct {
	// Kind is manifest, sealing, ca, agent-signer, proxy-signer or server-signer. ID is the public key, or the
	// fingerprint of an authority.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Stage is next (agents trust it, and servers do not use it yet), present, or former (kept for agents that know no
	// later key).
	Stage string    `json:"stage"`
	Since time.Time `json:"since"`
	// Until is the time at which the server drops a former key. Ends is the expiry of an authority's certificate.
	Until *time.Time `json:"until,omitempty"`
	Ends  *time.Time `json:"ends,omitempty"`
}

// Keys holds all keys and their use.
type Keys struct {
	Keys []Key `json:"keys"`
	// Online is the number of online hosts, and Reached the number of online hosts that trust these keys, as far as
	// this server knows.
	Online  int `json:"online"`
	Reached int `json:"reached"`
	// StoppedServers are the servers of the last 7 days that do not run, and lack present or next keys. A server that
	// starts without these keys rejects the messages of hosts and servers that use them.
	StoppedServers []StoppedServer `json:"stopped_servers,omitempty"`
}

// StoppedServer is a server that does not run. Lacks are the kinds of the keys that it did not have when it ran.
type StoppedServer struct {
	Name       string    `json:"name"`
	LastSeenAt time.Time `json:"last_seen_at"`
	Lacks      []string  `json:"lacks"`
}

// RotateRequest asks for one step of a rotation of keys.
type RotateRequest struct {
	// KeepSeconds is the time for which the server keeps the replaced key; 0 means the default.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
	// Force does not wait for online hosts that do not know the next key yet.
	Force bool `json:"force,omitempty"`
}

// Package is a version of the agent for an architecture, signed by the owner of the hosts.
type Package struct {
	Version string `json:"version"`
	Arch    string `json:"arch"`
	// Format is the layout of the files that this version keeps on a host.
	Format int `json:"format"`
	// Size is in bytes. SHA256 is the sum of the program in hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Key is the public key that has signed the package. A host accepts the package only if it pins that key.
	Key      string    `json:"key"`
	SignedAt time.Time `json:"signed_at"`
	// Downgrade tells that hosts with a later version accept the package, too.
	Downgrade bool      `json:"downgrade,omitempty"`
	AddedBy   string    `json:"added_by"`
	AddedAt   time.Time `json:"added_at"`
	// Missing are the numbers of the pieces, from 0, that the server does not have yet. Hosts cannot fetch the package
	// before the server has all pieces. Each piece but the last has PieceSize bytes.
	Missing []int `json:"missing,omitempty"`
}

// PieceSize is the size of a piece of a package in bytes.
const PieceSize = 256 << 10

// PackageRequest adds a package. Its pieces follow.
type PackageRequest struct {
	// Signed is the signed text of 'drover packages sign'.
	Signed string `json:"signed"`
}

// PackagePiece is a piece of a package.
type PackagePiece struct {
	Data []byte `json:"data"`
}

// UpgradeRequest has the agents of hosts run a version, as a rollout.
type UpgradeRequest struct {
	Version string `json:"version"`
	// Hosts are ids, cloud:ip or patterns; Select is an expression about labels and facts. One of the two is required.
	Hosts  []string `json:"hosts,omitempty"`
	Select string   `json:"select,omitempty"`
	// Rollout spreads the upgrade over the hosts; without it all hosts are one batch. At is as in Request.
	Rollout *RolloutPlan `json:"rollout,omitempty"`
	At      string       `json:"at,omitempty"`
}

// Server is the state of the server that answers the call.
type Server struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"`
	// Problem says why the server is not ready; empty if it is ready. Notes are warnings for operators.
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Servers is the number of servers of the fleet that are online, and Hosts and HostsOnline count the hosts.
	Servers     int `json:"servers"`
	Hosts       int `json:"hosts"`
	HostsOnline int `json:"hosts_online"`
	// Certificates are the certificates that the server presents, and their authorities; none without TLS.
	Certificates []Certificate `json:"certificates"`
	// Disk is the file system of the data directory; nil if it cannot be read.
	Disk *Space `json:"disk,omitempty"`
	// UnknownHosts are the hosts that the database does not know, as after a restore, and whose reports this server has
	// rejected in the last minutes: the first 100. They have to join again.
	UnknownHosts []UnknownHost `json:"unknown_hosts,omitempty"`
}

// UnknownHost is a host that the database does not know. Address is the address of its connection to the server; it is
// empty if the host is connected to a proxy, or to another broker.
type UnknownHost struct {
	Key         string    `json:"key"`
	Cloud       int       `json:"cloud"`
	Address     string    `json:"address,omitempty"`
	FirstSeenAt time.Time `json:"first_seen_at"`
	LastSeenAt  time.Time `json:"last_seen_at"`
}

// Certificate is a certificate of the server, and the time at which it ends.
type Certificate struct {
	Name   string    `json:"name"`
	EndsAt time.Time `json:"ends_at"`
}

// Space is the size of a file system and its free space, in bytes. Free is the space that programs without special
// rights can use.
type Space struct {
	Free int64 `json:"free_bytes"`
	Size int64 `json:"size_bytes"`
}
