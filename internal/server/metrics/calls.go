package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Counted returns a handler that measures the calls of h. h must set the pattern of each known request. All other
// requests count as one endpoint, whatever their paths.
func (m *Metrics) Counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		told := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		aborted := true
		defer func() {
			endpoint := nameOf(r.Pattern)
			if strings.HasSuffix(endpoint, "/stream") {
				return
			}
			status := strconv.Itoa(told.status/100) + "xx"
			if aborted {
				status = "aborted"
			}
			m.requests.WithLabelValues(endpoint, status).Observe(time.Since(begun).Seconds())
		}()
		h.ServeHTTP(told, r)
		aborted = false
	})
}

// nameOf returns the endpoint of a pattern.
func nameOf(pattern string) string {
	if pattern == "" || pattern == "/" {
		return "unknown"
	}
	return pattern
}

// statusRecorder records the status of the answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the wrapped writer.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
