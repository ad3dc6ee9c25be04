package wire_test

import (
	"slices"
	"strings"
	"testing"

	"drover/internal/wire"
)

func TestSubjects(t *testing.T) {
	_, agent := key(t, "a")
	if area, got, err := wire.ReportAgent(wire.ReportSubject(7, agent)); err != nil || got != agent || area != 7 {
		t.Errorf("got %d, %q, %v", area, got, err)
	}
	if got := wire.OrderSubject(7, agent); got == wire.ReportSubject(7, agent) || got == wire.OrderSubject(8, agent) ||
		!strings.Contains(got, agent) {
		t.Errorf("orders go to %s", got)
	}
	if got := strings.Replace(wire.ReportsOf(7), ".7.", ".*.", 1); got != wire.AnyReportSubject {
		t.Errorf("%s does not match %s", wire.AnyReportSubject, wire.ReportsOf(7))
	}
	own := wire.ReportSubject(7, agent)
	for _, subject := range []string{
		"", "drover", wire.AnyReportSubject, wire.ReportsOf(7), wire.OrderSubject(7, agent), wire.ReportSubject(7, ""),
		wire.ReportSubject(7, agent[:55]),
		wire.ReportSubject(-1, agent), wire.ReportSubject(7, agent+"A"), wire.ReportSubject(7, agent+"."),
		own + ".more", " " + own,
		own + " ", wire.ReportSubject(7, agent+" "), strings.Replace(own, ".v1.", ".v2.", 1),
		strings.Replace(own, ".7.", ".07.", 1),
		strings.Replace(own, ".7.", ".+7.", 1), strings.Replace(own, ".7.", ".x.", 1),
		wire.ReportSubject(7, agent[:27]+"."+agent[28:]), wire.ReportSubject(7, agent[:27]+"*"+agent[28:]),
		wire.ReportSubject(7, strings.ToLower(agent)),
	} {
		if area, got, err := wire.ReportAgent(subject); err == nil {
			t.Errorf("%q is a report of %d, %q", subject, area, got)
		}
	}
}

// TestTemplates: what the broker makes of them is what agents use.
func TestTemplates(t *testing.T) {
	_, agent := key(t, "a")
	fill := strings.NewReplacer("{{tag(area)}}", "7", "{{subject()}}", agent)
	publish, subscribe := wire.AgentSubjects()
	if len(publish) != 2 || fill.Replace(publish[0]) != wire.ReportSubject(7, agent) ||
		fill.Replace(publish[1]) != wire.PackageSubject(7, agent) {
		t.Errorf("agents may publish to %q", publish)
	}
	if len(subscribe) != 3 || fill.Replace(subscribe[2]) != wire.LogSubject(7, agent) ||
		fill.Replace(subscribe[0]) != wire.OrderSubject(7, agent) ||
		fill.Replace(subscribe[1]) != wire.PingSubject(7, agent) {
		t.Errorf("agents may listen on %q", subscribe)
	}
	if slices.ContainsFunc(append(publish, subscribe...), func(s string) bool { return strings.ContainsAny(s, "*>") }) {
		t.Errorf("agents have wildcards: %q, %q", publish, subscribe)
	}
}

// FuzzReportAgent: a subject names an agent only if it is that agent's.
func FuzzReportAgent(f *testing.F) {
	_, agent := key(f, "a")
	f.Add(wire.ReportSubject(0, agent))
	f.Add(wire.AnyReportSubject)
	f.Fuzz(func(t *testing.T, subject string) {
		area, got, err := wire.ReportAgent(subject)
		if err == nil && (wire.ReportSubject(area, got) != subject || len(got) != 56 ||
			strings.ContainsAny(got, ".*> \t\n")) {
			t.Errorf("%q is a report of %d, %q", subject, area, got)
		}
	})
}
