package security_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

// TestTrustedGatewayOfTheBinary: the flag reaches the edge, and only its paths.
func TestTrustedGatewayOfTheBinary(t *testing.T) {
	env := []string{"DROVER_BOOTSTRAP_APP_CODE=" + harness.AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + boot}
	for flag, trusted := range map[string]bool{"127.0.0.0/8": true, "10.0.0.0/8,192.0.2.1": false} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s := harness.StartIn(t, drover, env, "--trusted-gateway", flag)
			for path, backend := range map[string]bool{
				"GET /procapi/v1/proc/syncstatus": true, "POST /esb/api/v2/get_proc_result": true,
				"POST /api/c/compapi/v2/gse/sync_proc_status/": false, "POST /api/v2/proc/sync_proc_status": false,
			} {
				method, target, _ := strings.Cut(path, " ")
				req, err := http.NewRequestWithContext(t.Context(), method, s.URL+target,
					strings.NewReader(`{"meta": {"namespace": "ns"}, "bk_biz_id": 1, "bk_gse_taskid": "x"}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Bk-App-Code", harness.AppCode)
				req.Header.Set("Bk-Username", "ann")
				c := &caller{t: t, server: s}
				reply := c.send(req)
				if in := !strings.Contains(reply, "empty"); in != (trusted && backend) {
					t.Errorf("%s from a gateway that is trusted: %v: answered %s", path, trusted, reply)
				}
			}
		})
	}
}

// TestRightsOfTheBinary: an app that was made by the API can do what it was granted, and no more, from one call to the
// next.
func TestRightsOfTheBinary(t *testing.T) {
	t.Parallel()
	s := harness.StartIn(t, drover, []string{
		"DROVER_BOOTSTRAP_APP_CODE=" + harness.AppCode,
		"DROVER_BOOTSTRAP_APP_SECRET=" + boot,
	})
	c := &caller{t: t, server: s}
	secret := c.made("/apps",
		`{"code": "made", "may_name_users": true, "grants": [{"operations": ["read"], "namespaces": ["ns"]}]}`,
		"secret")
	creds := fmt.Sprintf(`{"bk_app_code": "made", "bk_app_secret": %q, "bk_username": "ann"}`, secret)
	sync := func(namespace string) string {
		return c.call(http.MethodPost, "/api/v2/proc/sync_proc_status", creds,
			fmt.Sprintf(`{"meta": {"namespace": %q}}`, namespace))
	}
	want := func(reply, part string) {
		t.Helper()
		if !strings.Contains(reply, part) {
			t.Errorf("reply is %s, want %s in it", reply, part)
		}
	}
	want(sync("ns"), `"code":0`)
	want(sync("other"), `"message":"app made has no right to query other on every host"`)
	c.call(http.MethodPatch, "/api/v1/apps/made", admin(),
		`{"grants": [{"operations": ["read"], "namespaces": ["other"]}], "limits": {"rate": 0.001, "burst": 2}}`)
	want(sync("ns"), `"code":1640301`)
	want(sync("other"), `"code":0`)
	want(sync("other"), `"code":1642902`)
	c.call(http.MethodPatch, "/api/v1/apps/made", admin(), `{"disabled": true}`)
	want(sync("other"), "app is disabled")
}
