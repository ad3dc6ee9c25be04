package v1

import "time"

// JoinToken lets hosts join.
type JoinToken struct {
	ID string `json:"id"`
	// State is one of the constants below, such as TokenOpen.
	State string `json:"state"`
	// Role is the kind of program that joins with it: agent or proxy.
	Role      string            `json:"role"`
	Cloud     int               `json:"cloud"`
	Labels    map[string]string `json:"labels"`
	Business  int64             `json:"business,omitempty"`
	Note      string            `json:"note,omitempty"`
	Uses      int               `json:"uses"`
	Used      int               `json:"used"`
	CreatedAt time.Time         `json:"created_at"`
	ExpiresAt time.Time         `json:"expires_at"`
	RevokedAt *time.Time        `json:"revoked_at,omitempty"`
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
	// Role is the kind of program that joins with it: agent (the default) or proxy.
	Role string `json:"role,omitempty"`
	// Cloud is the area that hosts join; every host that joins gets Labels and Business.
	Cloud    int               `json:"cloud"`
	Labels   map[string]string `json:"labels,omitempty"`
	Business int64             `json:"business,omitempty"`
	Note     string            `json:"note,omitempty"`
	// Uses is the number of hosts that may join with it, 1 to 100,000.
	Uses int `json:"uses"`
	// TTLSeconds is its lifetime, at most 366 days.
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
	// Kind is manifest, ca or agent-signer. ID is the public key, or the fingerprint of an authority.
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
	// Online is the number of online hosts, and Reached the number of these that trust these keys, as far as this
	// server knows.
	Online  int `json:"online"`
	Reached int `json:"reached"`
}

// RotateRequest asks for one step of a rotation of keys.
type RotateRequest struct {
	// KeepSeconds is the time for which the server keeps the replaced key; 0 means the default.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
	// Force does not wait for online hosts that do not know the next key yet.
	Force bool `json:"force,omitempty"`
}
