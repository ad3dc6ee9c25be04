package config_test

import (
	"strings"
	"testing"

	"drover/internal/config"
)

func TestPrefixes(t *testing.T) {
	var p config.Prefixes
	for _, text := range []string{"10.1.2.3/8", "127.0.0.1, ::1", "2001:db8::/32", "::ffff:192.0.2.1"} {
		if err := p.Set(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, want := p.String(), "10.0.0.0/8,127.0.0.1/32,::1/128,2001:db8::/32,192.0.2.1/32"; got != want {
		t.Errorf("prefixes are %s, want %s", got, want)
	}
	for text, reason := range map[string]string{
		"": "expected a network", "localhost": "expected a network", "10.0.0.0/33": "expected a network",
		"fe80::1%eth0":        "expected a network",
		"::ffff:10.0.0.0/104": "expected a network", "0.0.0.0/0": "contains every address",
		"::/0": "contains every address", "10.0.0.1,": "expected a network",
	} {
		if err := new(config.Prefixes).Set(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, want an error about %s", text, err, reason)
		}
	}
}
