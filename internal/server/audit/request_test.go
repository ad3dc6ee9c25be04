package audit_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/server/audit"
)

func TestRequestID(t *testing.T) {
	for _, fit := range []string{"a", "3f-2_B.c:d", strings.Repeat("x", 64)} {
		if got := audit.RequestID(fit); got != fit {
			t.Errorf("%q became %q", fit, got)
		}
	}
	seen := map[string]bool{}
	for _, unfit := range []string{"", "a b", "a\nb", "a\"b", "ü", strings.Repeat("x", 65)} {
		got := audit.RequestID(unfit)
		if len(got) != 32 || strings.Trim(got, "0123456789abcdef") != "" || seen[got] {
			t.Errorf("%q became %q: want a new id", unfit, got)
		}
		seen[got] = true
	}
}

func TestRemote(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::1",
		"@": "socket", "": "socket",
	} {
		if r.RemoteAddr = address; audit.Remote(r) != want {
			t.Errorf("%q is %q, want %q", address, audit.Remote(r), want)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", "abcde": "abcd…", "a\x1b[c": "a?[c", "abcé": "abc…"} {
		if got := audit.Clip(text, 4); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
