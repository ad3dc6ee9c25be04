package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"
)

// Subjects begin with the area, so that whoever serves one area can be confined to it, and carry the public nkey of an agent or a
// proxy, never a caller's string.

const (
	subjectRoot = "drover.v1."
	keyLength   = 56
)

// Placeholders of subject templates: the broker puts the area and the key of whoever connects in their place.
const (
	anyArea = "{{tag(area)}}"
	anyKey  = "{{subject()}}"
)

// OrderSubject is where the agent of an area listens for signed manifests (a request; the reply is a Receipt).
func OrderSubject(area int, agent string) string { return orderSubject(strconv.Itoa(area), agent) }

// PingSubject is where the agent of an area shows that it is there (a request without content), whatever its disk does.
func PingSubject(area int, agent string) string { return pingSubject(strconv.Itoa(area), agent) }

// ReportSubject is where the agent of an area sends its Reports (a request; the reply is a ReportAck).
func ReportSubject(area int, agent string) string { return reportSubject(strconv.Itoa(area), agent) }

// ReportsOf matches the ReportSubject of every agent of an area.
func ReportsOf(area int) string { return ReportSubject(area, "*") }

// AnyReportSubject matches the ReportSubject of every agent.
const AnyReportSubject = subjectRoot + "*.server.*.reports"

func orderSubject(area, agent string) string {
	return subjectRoot + area + ".agent." + agent + ".orders"
}

func pingSubject(area, agent string) string {
	return subjectRoot + area + ".agent." + agent + ".ping"
}

func reportSubject(area, agent string) string {
	return subjectRoot + area + ".server." + agent + ".reports"
}

// ReportAgent takes the area and the agent's nkey out of a ReportSubject. The broker lets an agent publish under its own area and key
// only.
func ReportAgent(subject string) (area int, agent string, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) == 6 {
		area, err = strconv.Atoi(parts[2])
		agent = parts[4]
	}
	if len(agent) != keyLength || err != nil || area < 0 || !nkeys.IsValidPublicUserKey(agent) || ReportSubject(area, agent) != subject {
		return 0, "", fmt.Errorf("subject %q is not a report subject", subject)
	}
	return area, agent, nil
}

// AgentSubjects are what an agent may publish to and listen on, as templates for the broker.
func AgentSubjects() (publish, subscribe []string) {
	return []string{reportSubject(anyArea, anyKey)}, []string{orderSubject(anyArea, anyKey), pingSubject(anyArea, anyKey)}
}
