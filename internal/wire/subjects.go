package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"
)

// Subjects begin with the area, so that the broker can confine a client to its area. They carry the public nkey of an
// agent or a proxy, never a caller's string.

const (
	subjectRoot = "drover.v1."
	keyLength   = 56
)

// Placeholders of subject templates: the broker replaces them with the area and the key of its client.
const (
	anyArea = "{{tag(area)}}"
	anyKey  = "{{subject()}}"
)

// OrderSubject is where the agent of an area listens for signed manifests (a request; the reply is a Receipt).
func OrderSubject(area int, agent string) string { return orderSubject(strconv.Itoa(area), agent) }

// PingSubject is where the agent of an area shows that it is alive (a request without content), whatever its disk
// does.
func PingSubject(area int, agent string) string { return pingSubject(strconv.Itoa(area), agent) }

// LogSubject is where the agent of an area listens for signed manifests with a question about a log or about running
// processes (a request; the reply is a signed LogAnswer or LiveAnswer). It is apart from OrderSubject, so that no order
// waits for a reader of logs.
func LogSubject(area int, agent string) string { return logSubject(strconv.Itoa(area), agent) }

// ReportSubject is where the agent of an area sends its Reports (a request; the reply is a ReportAck).
func ReportSubject(area int, agent string) string { return reportSubject(strconv.Itoa(area), agent) }

// PackageSubject is where the agent of an area asks for packages (a request with a PackageQuestion).
func PackageSubject(area int, agent string) string { return packageSubject(strconv.Itoa(area), agent) }

// PackagesOf matches the PackageSubject of every agent of an area.
func PackagesOf(area int) string { return PackageSubject(area, "*") }

// AnyPackageSubject matches the PackageSubject of every agent.
const AnyPackageSubject = subjectRoot + "*.server.*.packages"

// ReportsOf matches the ReportSubject of every agent of an area.
func ReportsOf(area int) string { return ReportSubject(area, "*") }

// AnyReportSubject matches the ReportSubject of every agent.
const AnyReportSubject = subjectRoot + "*.server.*.reports"

// ServersQueue is the queue group in which servers share messages that one of them should get. A proxy is in it for
// PackagesOf its area: a broker prefers its own clients.
const ServersQueue = "servers"

func orderSubject(area, agent string) string {
	return subjectRoot + area + ".agent." + agent + ".orders"
}

func pingSubject(area, agent string) string {
	return subjectRoot + area + ".agent." + agent + ".ping"
}

func logSubject(area, agent string) string {
	return subjectRoot + area + ".agent." + agent + ".logs"
}

func reportSubject(area, agent string) string {
	return subjectRoot + area + ".server." + agent + ".reports"
}

func packageSubject(area, agent string) string {
	return subjectRoot + area + ".server." + agent + ".packages"
}

// ReportAgent extracts the area and the agent's nkey from a ReportSubject. The broker lets an agent publish only
// under its own area and key.
func ReportAgent(subject string) (area int, agent string, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) == 6 {
		area, err = strconv.Atoi(parts[2])
		agent = parts[4]
	}
	if len(agent) != keyLength || err != nil || area < 0 || !nkeys.IsValidPublicUserKey(agent) ||
		ReportSubject(area, agent) != subject {
		return 0, "", fmt.Errorf("subject %q is not a report subject", subject)
	}
	return area, agent, nil
}

// AgentSubjects are the subjects on which an agent may publish and listen, as templates for the broker.
func AgentSubjects() (publish, subscribe []string) {
	return []string{reportSubject(anyArea, anyKey), packageSubject(anyArea, anyKey)},
		[]string{orderSubject(anyArea, anyKey), pingSubject(anyArea, anyKey), logSubject(anyArea, anyKey)}
}
