package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"
)

// JoinPath is where a server takes a JoinRequest: POST, sealed by SealJoin. The answer is an Enrolment.
const JoinPath = "/api/v1/join"

// JoinRequest is how a host asks to join. It travels over a verified connection only, as it holds the secret of its token.
type JoinRequest struct {
	Version int `json:"version"`
	// Token is the id of the token, Secret its secret.
	Token  string `json:"token"`
	Secret string `json:"secret"`
	// Key is the agent's public nkey, made on the host; the request is signed by its private half.
	Key string `json:"key"`
	// At is the clock of the host.
	At time.Time `json:"at"`
	// IP is what callers are to name the host by, in the area of the token; ID is a stable id beside it, and may be empty.
	IP   string `json:"ip"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"` // the host's own name
	// Build is the agent's version.
	Build string `json:"build"`
	Host  Host   `json:"host,omitzero"`
	// Proxy is set by a proxy; IP and ID are empty then, and the answer is a ProxyEnrolment.
	Proxy *ProxyFacts `json:"proxy,omitempty"`
}

// sealedJoin is a join request as it travels: the exact bytes that were signed, and the signature.
type sealedJoin struct {
	Request   []byte `json:"request"`
	Signature []byte `json:"signature"`
}

// joinDomain begins what is signed, so that the signature is good for nothing else: the key also answers the broker's challenges.
const joinDomain = "drover join 1\n"

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
	signature, err := key.Sign(append([]byte(joinDomain), body...))
	if err != nil {
		return nil, fmt.Errorf("cannot sign request: %w", err)
	}
	return json.Marshal(sealedJoin{Request: body, Signature: signature})
}

// OpenJoin reads a request and verifies that whoever sent it holds the private half of its key. Whether it may join is not its
// business. No error quotes the request.
func OpenJoin(data []byte) (JoinRequest, error) {
	var sealed sealedJoin
	var r JoinRequest
	if json.Unmarshal(data, &sealed) != nil || json.Unmarshal(sealed.Request, &r) != nil {
		return JoinRequest{}, errors.New("it is no request to join")
	}
	if r.Version > Version {
		return JoinRequest{}, ErrVersion
	}
	if !nkeys.IsValidPublicUserKey(r.Key) {
		return JoinRequest{}, errors.New("its key is no public key of an agent")
	}
	public, err := nkeys.FromPublicKey(r.Key)
	if err != nil {
		return JoinRequest{}, errors.New("its key is no public key of an agent")
	}
	if err := public.Verify(append([]byte(joinDomain), sealed.Request...), sealed.Signature); err != nil {
		return JoinRequest{}, ErrForged
	}
	return r, nil
}
