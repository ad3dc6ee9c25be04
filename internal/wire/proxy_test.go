package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"drover/internal/wire"
)

// TestProxySubjects: a proxy may use what is its own and its area's, and the servers' subjects of it are among that.
func TestProxySubjects(t *testing.T) {
	_, proxy := key(t, "p")
	_, agent := key(t, "a")
	fill := strings.NewReplacer("{{tag(area)}}", "7", "{{subject()}}", proxy)
	covers := func(patterns []string, subject string) bool {
		for _, p := range patterns {
			p = fill.Replace(p)
			if p == subject || strings.HasSuffix(p, ">") && strings.HasPrefix(subject, strings.TrimSuffix(p, ">")) {
				return true
			}
		}
		return false
	}
	publish, subscribe := wire.ProxySubjects()
	for _, subject := range []string{
		wire.ProxyJoinSubject(7, proxy), wire.ProxyRefreshSubject(7, proxy), wire.ProxyBeatSubject(7, proxy),
		wire.ReportSubject(7, agent), wire.ReportsOf(7), wire.ProxyPackagesSubject(7, proxy),
	} {
		if !covers(publish, subject) || covers(subscribe, subject) {
			t.Errorf("%s may not be published to, or may be listened on", subject)
		}
	}
	for _, subject := range []string{
		wire.ProxyNewsSubject(7, proxy), wire.OrderSubject(7, agent), wire.PackagesOf(7),
	} {
		if !covers(subscribe, subject) {
			t.Errorf("%s may not be listened on", subject)
		}
	}
	for _, subject := range []string{
		wire.ProxyJoinSubject(8, proxy), wire.ProxyJoinSubject(7, agent), wire.ReportSubject(8, agent),
		wire.OrderSubject(8, agent), wire.ProxyNewsSubject(7, agent),
	} {
		if covers(publish, subject) || covers(subscribe, subject) {
			t.Errorf("%s may be used", subject)
		}
	}
}

// TestProven: what is signed tells where the request ends and the answer begins.
func TestProven(t *testing.T) {
	seen := [][]byte{}
	for _, c := range [][2]string{
		{"", ""},
		{"a", "b"},
		{"ab", ""},
		{"", "ab"},
		{"a", "\nb"},
		{"1\na", "b"},
		{"2", "ab"},
	} {
		made := wire.Proven([]byte(c[0]), []byte(c[1]))
		for _, other := range seen {
			if bytes.Equal(made, other) {
				t.Errorf("%q and %q are signed as something else is", c[0], c[1])
			}
		}
		seen = append(seen, made)
	}
}
