package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/process"
)

// JoinPath is the path at which a server accepts a JoinRequest: POST, sealed by SealJoin. The answer is an Enrolment.
const JoinPath = "/api/v1/join"

// JoinRequest is the request of a host to join. It travels over a verified connection only, because it holds the
// secret of its token.
type JoinRequest struct {
	Version int `json:"version"`
	// Token is the id of the token, Secret its secret.
	Token  string `json:"token"`
	Secret string `json:"secret"`
	// Key is the agent's public nkey, made on the host; the request is signed by its private half.
	Key string `json:"key"`
	// Sealing is the public key of X25519 of the agent or the proxy, in the form of an nkey, for sealed messages.
	Sealing string `json:"sealing,omitempty"`
	// At is the clock of the host.
	At time.Time `json:"at"`
	// IP is the address by which callers name the host, in the area of the token. ID is a stable id in addition to
	// it, and may be empty.
	IP   string `json:"ip"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"` // the host's own name
	// Build is the agent's version.
	Build string `json:"build"`
	Host  Host   `json:"host,omitzero"`
	// Proxy is set by a proxy; IP and ID are empty then, and the answer is a ProxyEnrolment.
	Proxy *ProxyFacts `json:"proxy,omitempty"`
}

// sealedJoin is a join request on the wire: its exact bytes, and the signature of their statement.
type sealedJoin struct {
	Request   []byte `json:"request"`
	Signature []byte `json:"signature"`
}

// SealJoin encodes and signs a request with the agent's key.
func SealJoin(r JoinRequest, key nkeys.KeyPair) ([]byte, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot sign request: %w", err)
	}
	r.Version, r.Key = Version, public
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode request: %w", err)
	}
	_, made, err := statement{kind: kindJoin, said: body}.sign(key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealedJoin{Request: body, Signature: made})
}

// NameFaults returns what is wrong with the names that a host asks for: its address, which is empty if it finds the
// address itself, and its id.
func NameFaults(ip, id string) error {
	var faults []error
	if _, err := netip.ParseAddr(ip); ip != "" && err != nil {
		faults = append(faults, fmt.Errorf("--ip %.40q is not an IP address", ip))
	}
	if err := process.HostIDFault(id); err != nil {
		faults = append(faults, fmt.Errorf("--id %w", err))
	}
	return errors.Join(faults...)
}

// OpenJoin reads a request and verifies that its sender holds the private half of its key. It does not decide whether
// the sender may join. No error quotes the request.
func OpenJoin(data []byte) (JoinRequest, error) {
	var sealed sealedJoin
	var r JoinRequest
	if json.Unmarshal(data, &sealed) != nil || json.Unmarshal(sealed.Request, &r) != nil {
		return JoinRequest{}, errors.New("not a request to join")
	}
	if r.Version > Version {
		return JoinRequest{}, ErrVersion
	}
	if !nkeys.IsValidPublicUserKey(r.Key) {
		return JoinRequest{}, errors.New("its key is not the public key of an agent")
	}
	if r.Sealing != "" && !nkeys.IsValidPublicCurveKey(r.Sealing) {
		return JoinRequest{}, errors.New("its sealing key is not a public key of X25519")
	}
	if err := (statement{kind: kindJoin, said: sealed.Request}).verify(r.Key, sealed.Signature); err != nil {
		return JoinRequest{}, err
	}
	return r, nil
}
