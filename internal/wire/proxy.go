package wire

import "strconv"

// A proxy joins an area that has no route to the servers. It forwards the messages of its agents without reading
// them, and sends its own messages on its own subjects. All messages between a proxy and the servers are frames, except
// packages, which anybody may read.

// ProxyJoinSubject is where a proxy forwards a host's request to join (a RelayedJoin; the reply is a RelayedAnswer).
func ProxyJoinSubject(area int, proxy string) string { return proxySubject(area, proxy, "join") }

// ProxyRefreshSubject is where a proxy renews its enrolment (a RefreshRequest; the reply is a RefreshAnswer).
func ProxyRefreshSubject(area int, proxy string) string { return proxySubject(area, proxy, "refresh") }

// ProxyBeatSubject is where a proxy sends its heartbeat, and checks its route to the servers (a Beat; the reply is a
// BeatAck).
func ProxyBeatSubject(area int, proxy string) string { return proxySubject(area, proxy, "beat") }

// ProxyPackagesSubject is where a proxy asks for packages that its agents have asked for (a request with a
// PackageQuestion).
func ProxyPackagesSubject(area int, proxy string) string {
	return proxySubject(area, proxy, "packages")
}

// ProxyNewsSubject is where a proxy learns that its enrolment has changed (a frame without a body).
func ProxyNewsSubject(area int, proxy string) string { return proxySubject(area, proxy, "news") }

func proxySubject(area int, proxy, verb string) string {
	return subjectRoot + strconv.Itoa(area) + ".proxy." + proxy + "." + verb
}

// ProxySubjects are the subjects on which a proxy may publish and listen, as templates for the broker: the subjects
// of its agents, and its own. Of what its agents ask, it may answer the questions about packages.
func ProxySubjects() (publish, subscribe []string) {
	area := subjectRoot + anyArea
	return []string{area + ".server.>", area + ".proxy." + anyKey + ".>"},
		[]string{area + ".agent.>", area + ".proxy." + anyKey + ".news", packageSubject(anyArea, "*")}
}

// ProxyFacts describes a proxy that joins.
type ProxyFacts struct {
	Name string `json:"name"`
	// Advertise is the address by which the agents of its area reach its fabric, host:port.
	Advertise string `json:"advertise"`
	// Certificate is a PKCS #10 request in DER, for the certificate of its listeners.
	Certificate []byte `json:"certificate"`
}

// ProxyEnrolment is what a proxy needs to find and trust its servers, and to recognise its agents. It holds no
// secret.
type ProxyEnrolment struct {
	Area int    `json:"area"`
	Name string `json:"name"`
	// JWT is the proxy's own user token.
	JWT string `json:"jwt"`
	// Hubs are the addresses at which servers listen for proxies, host:port. CA is the authority that verifies the
	// servers and the proxy, in PEM.
	Hubs []string `json:"hubs"`
	CA   string   `json:"ca"`
	// Fleet is the public key of the servers' account. SealingKeys are the fleet's public keys of X25519 that open and
	// seal frames; the proxy seals with the first.
	Fleet       string   `json:"fleet"`
	SealingKeys []string `json:"sealing_keys"`
	// Account is the JWT that verifies agents; it lists removed agents.
	Account string `json:"account"`
	// Certificate is the certificate of the proxy with its issuers, in PEM; empty in an answer if the proxy asked for
	// none.
	Certificate string `json:"certificate,omitempty"`
	// Digest is the servers' digest of the rest; equal digests mean equal contents.
	Digest string `json:"digest,omitempty"`
}

// RelayedJoin is a host's request to join, forwarded by a proxy.
type RelayedJoin struct {
	Version int `json:"version"`
	// Remote is the address that sent the request.
	Remote string `json:"remote"`
	// Request is unchanged: see OpenJoin.
	Request []byte `json:"request"`
}

// RelayedAnswer is the answer to a host, over HTTP.
type RelayedAnswer struct {
	Version int               `json:"version"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Body    []byte            `json:"body"`
}

// ProofHeader is the header of a relayed answer that holds the server's signature of Proven.
const ProofHeader = "Drover-Proof"

// proofDomain begins the signed text, so that the signature is valid for nothing else.
const proofDomain = "drover joined 1\n"

// Proven is the text that a server signs for an answer that a proxy forwards: the answer and the request, so that the
// signature is valid for no other request.
func Proven(request, answer []byte) []byte {
	data := append([]byte(proofDomain), strconv.Itoa(len(request))...)
	data = append(append(data, '\n'), request...)
	return append(data, answer...)
}

// RefreshRequest asks for a new enrolment of a proxy.
type RefreshRequest struct {
	Version int `json:"version"`
	// Certificate, if set, asks for a new certificate too: a PKCS #10 request in DER.
	Certificate []byte `json:"certificate,omitempty"`
	// Sealing is a SealingChange, signed by SignSealing; empty for none.
	Sealing []byte `json:"sealing,omitempty"`
}

// RefreshAnswer holds the enrolment, or the reason why there is none.
type RefreshAnswer struct {
	Version   int             `json:"version"`
	Error     string          `json:"error,omitempty"`
	Enrolment *ProxyEnrolment `json:"enrolment,omitempty"`
}

// Beat is the heartbeat of a proxy, every few seconds.
type Beat struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	Agents  int    `json:"agents,omitempty"` // connected now
}

// BeatAck answers a Beat. If a proxy's enrolment has another digest, the proxy asks for a new enrolment.
type BeatAck struct {
	Version int    `json:"version"`
	Digest  string `json:"digest,omitempty"`
}
