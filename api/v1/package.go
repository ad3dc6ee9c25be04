package v1

import "time"

// Package is a version of the agent for an architecture, signed by the owner of the hosts.
type Package struct {
	Version string `json:"version"`
	Arch    string `json:"arch"`
	// Format is the layout of the files that this version keeps on a host.
	Format int `json:"format"`
	// Size is in bytes. SHA256 is the sum of the program in hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Key is the public key that has signed it. Hosts take it only if they pin that key.
	Key      string    `json:"key"`
	SignedAt time.Time `json:"signed_at"`
	// Downgrade tells that hosts with a later version take it, too.
	Downgrade bool      `json:"downgrade,omitempty"`
	AddedBy   string    `json:"added_by"`
	AddedAt   time.Time `json:"added_at"`
	// Missing are the numbers of the pieces, from 0, that the server does not have yet. Hosts cannot take the package
	// before it has all of them. Each piece but the last has PieceSize bytes.
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
	// Hosts are ids, cloud:ip or patterns; Select is an expression about labels and facts. One of them is needed.
	Hosts  []string `json:"hosts,omitempty"`
	Select string   `json:"select,omitempty"`
	// Rollout spreads the upgrade over the hosts; without it all hosts are one batch. At is as in Request.
	Rollout *RolloutPlan `json:"rollout,omitempty"`
	At      string       `json:"at,omitempty"`
}
