package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDenialsOfOne: whoever varies what it wants, or how it calls itself, is on record so often and no more; others
// are, too.
func TestDenialsOfOne(t *testing.T) {
	d, now := NewFabricDenials(nil, nil), time.Unix(1e9, 0)
	one, two := "U"+strings.Repeat("A", 55), "U"+strings.Repeat("B", 55)
	line := func(n int, key, kind string) string {
		return fmt.Sprintf(`127.0.0.1:%d - cid:%d - "v1:name-%d" - "%s" - %s Violation - Subject "%d.%s"`, n, n, n, key,
			kind, n, two)
	}
	noted := func(who string) (rows int) {
		for n := range 100 {
			text := line(n, who, "Publish")
			if !d.known(deniedOne(fmt.Sprintf("127.0.0.1:%d", n), text), text, now) {
				rows++
			}
		}
		return rows
	}
	for _, who := range []string{one, two} {
		if n := noted(who); n != fabricOfOne {
			t.Errorf("%d rows of one", n)
		}
	}
	if now = now.Add(fabricEvery); noted(one) != fabricOfOne {
		t.Error("an hour later nothing is on record")
	}
	if got := deniedOne("192.0.2.7:5", `authentication error - Nkey "`+one+`"`); got != "192.0.2.7" {
		t.Errorf("who has proven nothing is %s", got)
	}
	for n := range 2 * mostFabric {
		d.known(fmt.Sprint(n), "x", now)
	}
	if len(d.last) > mostFabric {
		t.Errorf("%d are remembered", len(d.last))
	}
}
