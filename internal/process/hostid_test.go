package process_test

import (
	"strings"
	"testing"

	"drover/internal/process"
)

// TestIDsOfHosts: an id never reads as a list, a pattern, a path or an option.
func TestIDsOfHosts(t *testing.T) {
	for _, id := range []string{"", "web-1", "0:10.0.0.1", "02000000005254001fd6d416", "主机-1", "fe80::1", "a_b.c"} {
		if err := process.HostIDFault(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{
		"web-10,web-11", "web*", "web?", "a b", "a/b", "-o", "a;b", "a=b", "a\nb", "a'b", `a"b`, "a(b)", "a%2fb", "<b>", "a!",
		"a\u200bb", "a\xffb", strings.Repeat("a", 65),
	} {
		if process.HostIDFault(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}
