package term

import (
	"bytes"
	"testing"
	"time"
)

func TestCaller(t *testing.T) {
	for _, c := range []struct{ app, user, want string }{
		{"shop", "", "shop"},
		{"", "uid:0", "uid:0"},
		{"shop", "anna", "anna through shop"},
		{"person:anna", "anna", "anna"},
		{"person:anna", "bert", "bert through person:anna"},
	} {
		if got := Caller(c.app, c.user); got != c.want {
			t.Errorf("app %q, user %q: %q, want %q", c.app, c.user, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB",
		3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d is %q, want %q", bytes, got, want)
		}
	}
}

// TestTablesSteerNoTerminal: what is printed comes from hosts and callers.
func TestTablesSteerNoTerminal(t *testing.T) {
	tab := Table{}
	tab.Add("NAME", "MESSAGE")
	tab.Add("é\x1b[31mx", "a\nb\u202ec")
	tab.Add("long-name", "")
	var out bytes.Buffer
	if err := tab.Write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "NAME       MESSAGE\né?[31mx    a b?c\nlong-name  -\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestStampIn: a time in a zone by its name; without one, or with one that is unknown here, in the local zone.
func TestStampIn(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	if got := StampIn(&at, "Asia/Shanghai"); got != "2026-11-20 10:00:00 +08:00" {
		t.Errorf("in Shanghai it is %s", got)
	}
	for _, zone := range []string{"", "No/Where"} {
		if got := StampIn(&at, zone); got != Stamp(&at) {
			t.Errorf("in the zone %q it is %s", zone, got)
		}
	}
	if got := StampIn(nil, "Asia/Shanghai"); got != "" {
		t.Errorf("no time is %q", got)
	}
}
