package edge

import (
	"net"
	"net/http"
	"strings"
)

// Guarded keeps pages of other sites away: a browser sends their requests, too. A request that changes something must
// not come from a page of another origin. What needs no credentials is served, without TLS, under the names of this
// server only, which named knows: a foreign name may point here (DNS rebinding). Programs send none of the headers of
// browsers.
func Guarded(next http.Handler, named func(host string) bool) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := origins.Check(r); err != nil {
			http.Error(w, "A page of another site has sent this request.", http.StatusForbidden)
			return
		}
		open := strings.HasSuffix(r.URL.Path, "/metrics") || strings.Contains(r.URL.Path, "/sign-ins/")
		if open && r.TLS == nil && !named(hostOf(r)) {
			http.Error(w, "This is not served under this name: use an address or a name of this server.",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is the name or address that a request is for, in lower case and without its port.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}
