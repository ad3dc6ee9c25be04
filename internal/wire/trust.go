package wire

// Enrolment is what a joined agent needs to find its server and to trust it. It holds no secret: the agent makes its
// private key on the host and never sends it.
type Enrolment struct {
	// URLs are the addresses of the fabric, JWT the agent's user token for it.
	URLs []string `json:"urls"`
	JWT  string   `json:"jwt"`
	// Fleet is the name of the fleet, the public key of its account on the fabric. It does not change; reports are
	// addressed to it.
	Fleet string `json:"fleet"`
	// CA are the certificates of the authorities that verify the fabric's certificate, in PEM; empty on loopback,
	// without TLS.
	CA string `json:"ca,omitempty"`
	// ManifestKeys are the public keys that may sign the next enrolment.
	ManifestKeys []string `json:"manifest_keys"`
	// SealingKeys are the fleet's public keys of X25519 that open and seal frames.
	SealingKeys []string `json:"sealing_keys,omitempty"`
	// Cloud and IP are the name "cloud:ip" that callers use; ID is a stable id in addition to it, if the host has
	// one.
	Cloud int    `json:"cloud"`
	IP    string `json:"ip"`
	ID    string `json:"id,omitempty"`
	TrustHeld
}

// TrustHeld identifies the Enrolment that an agent uses.
type TrustHeld struct {
	// Generation counts the enrolments of this agent. The agent accepts an enrolment only with a higher generation,
	// and a server issues the agent's own generation plus one. So a replayed enrolment has no effect.
	Generation uint64 `json:"generation,omitempty"`
	// Digest is the server's digest of addresses, authorities and keys; equal digests mean equal contents.
	Digest string `json:"digest,omitempty"`
	// Revision belongs to the keys that the server used: a server with an earlier revision cannot change the trust.
	Revision int `json:"revision,omitempty"`
}

// Stranger tells why the server does not accept an agent's identity: another host reports with the same key.
type Stranger struct {
	// Reason is a sentence for the operator of the host.
	Reason string `json:"reason"`
	// Clone is set once it is certain that both hosts run. Until then the agent reconnects: for some seconds a
	// quickly rebooted host looks the same.
	Clone bool `json:"clone,omitempty"`
}
