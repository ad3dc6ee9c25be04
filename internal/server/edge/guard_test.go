package edge_test

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"drover/internal/server/edge"
)

// TestPagesOfOtherSites: neither a foreign name that points here, nor a form of another site, reaches what needs no
// credentials; programs do.
func TestPagesOfOtherSites(t *testing.T) {
	local := func(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }
	h := edge.Guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), local)
	const device = "/api/v1/sign-ins/devices"
	for _, tt := range []struct {
		method, host, path string
		header             http.Header
		secure             bool
		want               int
	}{
		{method: "GET", host: "127.0.0.1:7350", path: "/metrics", want: 200},
		{method: "GET", host: "localhost:7350", path: "/metrics", want: 200},
		{method: "GET", host: "[::1]:7350", path: "/metrics", want: 200},
		{method: "GET", host: "evil.example:7350", path: "/metrics", want: 403},
		{method: "GET", host: "evil.example", path: "/metrics", secure: true, want: 200},
		{method: "GET", host: "evil.example", path: "/drover/metrics", want: 403},
		{method: "POST", host: "evil.example:7350", path: device, want: 403},
		{method: "POST", host: "127.0.0.1:7350", path: device, want: 200},
		{method: "POST", host: "127.0.0.1:7350", path: device, header: http.Header{"Origin": {"http://evil.example"}}, want: 403},
		{method: "POST", host: "127.0.0.1:7350", path: device, header: http.Header{"Origin": {"null"}}, want: 403},
		{method: "POST", host: "127.0.0.1:7350", path: "/api/v1/join", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, want: 403},
		{method: "POST", host: "127.0.0.1:7350", path: "/ui/login", header: http.Header{"Sec-Fetch-Site": {"same-site"}}, want: 403},
		{method: "POST", host: "gateway.example", path: "/api/c/compapi/v2/gse/operate_proc_v2/", want: 200},
	} {
		r := httptest.NewRequest(tt.method, "http://x"+tt.path, http.NoBody)
		r.Host = tt.host
		maps.Copy(r.Header, tt.header)
		if tt.secure {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s %s%s %v: %d, want %d", tt.method, tt.host, tt.path, tt.header, w.Code, tt.want)
		}
	}
}
