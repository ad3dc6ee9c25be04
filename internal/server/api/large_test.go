package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"drover/internal/server/store"
)

// TestLargeOperation walks the results of 5,000 targets, in pages.
func TestLargeOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it registers 5,000 hosts")
	}
	const many = 5_000
	r := newRig(t)
	r.app("admin")
	hosts := make([]string, many)
	for i := range hosts {
		a := store.Agent{
			Key: fmt.Sprintf("K%d", i), Cloud: 1, IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255),
			Created: time.Unix(1, 0),
		}
		r.must(r.fleet.Join(t.Context(), a, time.Now()))
		hosts[i] = "1:" + a.IP
	}
	target := map[string]any{"namespace": "a", "name": "x", "hosts": hosts}
	begun := time.Now()
	id := r.want(202,
		r.call("admin", "POST", "/tasks",
			map[string]any{"op": "start", "targets": []any{target}})).body["id"].(string)
	submitted := time.Since(begun)
	begun = time.Now()
	walked, query := 0, url.Values{"limit": {"1000"}}
	for {
		a := r.want(200, r.call("admin", "GET", "/tasks/"+id+"/results?"+query.Encode(), nil))
		walked += len(a.body["items"].([]any))
		if a.cursor() == "" {
			break
		}
		query.Set("cursor", a.cursor())
	}
	t.Logf("submitted in %s, walked in %s", submitted, time.Since(begun))
	if walked != many {
		t.Errorf("%d results of %d targets", walked, many)
	}
}
