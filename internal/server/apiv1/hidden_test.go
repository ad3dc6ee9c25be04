package apiv1_test

import (
	"strings"
	"testing"
)

// TestARefusalTellsNothing: who may not touch a process is told neither whether it is there nor where, and not which hosts there are.
func TestARefusalTellsNothing(t *testing.T) {
	r := newRig(t)
	r.app("reader", "read on mine")
	r.app("narrow", "stop on mine at 0:10.0.0.2")
	r.observe("secret/x@"+web+" running", "mine/x@"+web+" running", "mine/x@"+plain+" running")
	submit := func(app, namespace, name string, hosts ...string) string {
		t.Helper()
		a := r.call(app, "POST", "/operations", map[string]any{
			"op": "stop", "targets": []any{map[string]any{"namespace": namespace, "name": name, "hosts": hosts}},
		})
		r.refused(a, 403, "")
		detail, _ := a.body["detail"].(string)
		return detail
	}
	there := submit("reader", "secret", "x")
	for _, c := range []struct{ name, host string }{{"nothing", ""}, {"x", "web-1"}, {"x", "0:10.99.0.1"}, {"x", "no-such-host"}} {
		hosts := []string{c.host}
		if c.host == "" {
			hosts = nil
		}
		if got := strings.Replace(submit("reader", "secret", c.name, hosts...), "nothing", "x", 1); got != there {
			t.Errorf("%s on %q: %q, want as for one that is there: %q", c.name, c.host, got, there)
		}
	}
	if got := submit("narrow", "mine", "x"); got != "not allowed: stop mine/x on every host that knows it" {
		t.Errorf("of a process that is elsewhere, too, it is said %q", got)
	}
	for _, host := range []string{"0:10.99.0.1", "no-such-host", "0:[fe80::1]"} {
		if got := submit("narrow", "mine", "x", host); got != "not allowed: stop mine/x on "+host {
			t.Errorf("of a host that is not there it is said %q", got)
		}
	}
	r.app("area", "stop on mine at 0:10.99.*")
	r.refused(r.call("area", "POST", "/operations", map[string]any{
		"op": "stop", "targets": []any{map[string]any{"namespace": "mine", "name": "x", "hosts": []string{"0:10.99.0.1"}}},
	}), 422, "targets[0].hosts[0]")
}
