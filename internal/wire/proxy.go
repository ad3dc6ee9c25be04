package wire

import (
	"encoding/json"
	"strconv"
)

// A proxy joins an area that has no route to the servers. It carries the messages of its agents without reading them; what it has to say
// for itself goes by subjects of its own.

// ProxyJoinSubject is where a proxy passes on a host's request to join (a request; the reply is a RelayedAnswer).
func ProxyJoinSubject(area int, proxy string) string { return proxySubject(area, proxy, "join") }

// ProxyRefreshSubject is where a proxy asks for its enrolment anew (a RefreshRequest; the reply is a RefreshAnswer).
func ProxyRefreshSubject(area int, proxy string) string { return proxySubject(area, proxy, "refresh") }

// ProxyBeatSubject is where a proxy shows that it is there, and finds out whether its way to the servers is (a Beat; the reply is a BeatAck).
func ProxyBeatSubject(area int, proxy string) string { return proxySubject(area, proxy, "beat") }

// ProxyNewsSubject is where a proxy is told that its enrolment has changed (a message without content).
func ProxyNewsSubject(area int, proxy string) string { return proxySubject(area, proxy, "news") }

func proxySubject(area int, proxy, verb string) string {
	return subjectRoot + strconv.Itoa(area) + ".proxy." + proxy + "." + verb
}

// ProxySubjects are what a proxy may publish to and listen on, as templates for the broker: what its agents may, and its own.
func ProxySubjects() (publish, subscribe []string) {
	area := subjectRoot + anyArea
	return []string{area + ".server.>", area + ".proxy." + anyKey + ".>"}, []string{area + ".agent.>", area + ".proxy." + anyKey + ".news"}
}

// ProxyFacts is what a proxy tells of itself when it joins.
type ProxyFacts struct {
	Name string `json:"name"`
	// Advertise is where the agents of its area reach its fabric, host:port.
	Advertise string `json:"advertise"`
	// Certificate is a PKCS #10 request in DER, for what its listeners show.
	Certificate []byte `json:"certificate"`
}

// ProxyEnrolment is what a proxy needs to find and trust its servers, and to tell its agents from others. It holds no secret.
type ProxyEnrolment struct {
	Area int    `json:"area"`
	Name string `json:"name"`
	// JWT is the proxy's own user token.
	JWT string `json:"jwt"`
	// Hubs are where servers listen for proxies, host:port; CA is the authority that they and the proxy are verified by, in PEM.
	Hubs []string `json:"hubs"`
	CA   string   `json:"ca"`
	// Operator and Account are the JWTs by which agents are known; the account's says who was removed.
	Operator string `json:"operator"`
	Account  string `json:"account"`
	// Certificate is what the proxy shows, with its issuers, in PEM; empty in an answer to who asked for none.
	Certificate string `json:"certificate,omitempty"`
	// Digest is the servers' name for the rest; equal names are equal contents.
	Digest string `json:"digest,omitempty"`
}

// RelayedJoin is a host's request to join as a proxy passes it on.
type RelayedJoin struct {
	Version int `json:"version"`
	// Remote is the address that the request came from.
	Remote string `json:"remote"`
	// Request is as it came: see OpenJoin.
	Request []byte `json:"request"`
}

// RelayedAnswer is what a host is to be answered, over HTTP.
type RelayedAnswer struct {
	Version int               `json:"version"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Body    []byte            `json:"body"`
}

// ProofHeader is the header of a relayed answer that holds the server's signature of Proven.
const ProofHeader = "Drover-Proof"

// proofDomain begins what is signed, so that the signature is good for nothing else.
const proofDomain = "drover joined 1\n"

// Proven is what a server signs of an answer that a proxy passes on: the answer, and the request so that it is good for no other.
func Proven(request, answer []byte) []byte { return proven(proofDomain, request, answer) }

func proven(domain string, request, answer []byte) []byte {
	data := append([]byte(domain), strconv.Itoa(len(request))...)
	data = append(append(data, '\n'), request...)
	return append(data, answer...)
}

// RefreshRequest asks for a proxy's enrolment anew.
type RefreshRequest struct {
	Version int `json:"version"`
	// Nonce makes each question another one, so that no answer to an earlier one is taken.
	Nonce string `json:"nonce"`
	// Certificate, when set, asks for another certificate too: a PKCS #10 request in DER.
	Certificate []byte `json:"certificate,omitempty"`
}

// RefreshAnswer holds the enrolment, or why there is none.
type RefreshAnswer struct {
	Version   int             `json:"version"`
	Error     string          `json:"error,omitempty"`
	Enrolment *ProxyEnrolment `json:"enrolment,omitempty"`
}

// SealedRefresh is a RefreshAnswer as it travels: its exact bytes, and a server's proof of ProvenRefresh. What passes a broker that is somebody
// else's must not have a proxy believe another authority.
type SealedRefresh struct {
	Answer []byte          `json:"answer"`
	Proof  json.RawMessage `json:"proof"`
}

// refreshDomain begins what is signed, so that the signature is good for nothing else.
const refreshDomain = "drover refreshed 1\n"

// ProvenRefresh is what a server signs of an answer to a RefreshRequest: the answer, and the request so that it is good for no other.
func ProvenRefresh(request, answer []byte) []byte { return proven(refreshDomain, request, answer) }

// Beat is what a proxy tells of itself every few seconds.
type Beat struct {
	Version int    `json:"version"`
	Build   string `json:"build,omitempty"`
	Agents  int    `json:"agents,omitempty"` // connected now
}

// BeatAck answers a Beat. A proxy whose enrolment has another digest asks for it anew.
type BeatAck struct {
	Version int    `json:"version"`
	Digest  string `json:"digest,omitempty"`
}
