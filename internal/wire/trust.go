package wire

// Enrolment is what a joined agent needs to find its server and to trust it. It holds no secret: the agent's private key is
// made on the host and never leaves it.
type Enrolment struct {
	// URLs are the addresses of the fabric, JWT the agent's user token for it.
	URLs []string `json:"urls"`
	JWT  string   `json:"jwt"`
	// Fleet is the name of the fleet, the public key of its account on the fabric. It does not change; reports are addressed to it.
	Fleet string `json:"fleet"`
	// CA are the certificates of the authorities that the fabric's own is verified by, in PEM; empty on loopback, without TLS.
	CA string `json:"ca,omitempty"`
	// ManifestKeys are the public keys that may sign orders.
	ManifestKeys []string `json:"manifest_keys"`
	// Cloud and IP are the name "cloud:ip" that callers use; ID is a stable id beside it, if there is one.
	Cloud int    `json:"cloud"`
	IP    string `json:"ip"`
	ID    string `json:"id,omitempty"`
	TrustHeld
}

// TrustHeld says which Enrolment an agent goes by.
type TrustHeld struct {
	// Generation counts those that this agent has had. It takes a newer one only if that has a higher one, and a server gives out the
	// agent's own and one more: so an old one that somebody sends again does nothing.
	Generation uint64 `json:"generation,omitempty"`
	// Digest is the server's name for what it says of addresses, authorities and keys; equal names are equal contents.
	Digest string `json:"digest,omitempty"`
	// Revision is that of the keys which the server went by: one that goes by an earlier one has no say.
	Revision int `json:"revision,omitempty"`
}

// Stranger says why an agent is not taken for the one whose key it has: another host reports with the same key.
type Stranger struct {
	// Reason is a sentence for the operator of the host.
	Reason string `json:"reason"`
	// Clone is set once it is certain that both are there. Until then the agent is to come again: a host that was rebooted at once
	// looks the same for some seconds.
	Clone bool `json:"clone,omitempty"`
}
