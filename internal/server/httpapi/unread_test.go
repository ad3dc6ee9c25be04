package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover/internal/process"
	"drover/internal/server/store"
)

// watched is where an answer is written to, which may take as long as the caller likes.
type watched struct {
	http.ResponseWriter
	w      *world
	writes int
}

func (o *watched) Write(p []byte) (int, error) {
	if o.writes++; o.w.reading {
		o.w.t.Error(
			"rows are being read while the answer is written: a caller who does not read it holds a connection of the database")
	}
	return o.ResponseWriter.Write(p)
}

// TestNothingIsReadWhileAnAnswerIsWritten: the caller decides how long that takes.
func TestNothingIsReadWhileAnAnswerIsWritten(t *testing.T) {
	w := newWorld(t)
	id := process.ID{Namespace: "ns", Name: "x"}
	w.observed = []store.Observed{{Agent: "UAGENT1", Process: id, Status: running}}
	body := `{"meta": {"namespace": "ns", "name": "x"}, "agent_id_list": ["1:10.0.0.1"` +
		strings.Repeat(`,"1:10.0.0.1"`, 2000) + `]}`
	r := httptest.NewRequest(http.MethodPost, gatewayV2+"get_proc_status_v2", strings.NewReader(body))
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`,
		appCode, appSecret))
	out := httptest.NewRecorder()
	writer := &watched{ResponseWriter: out, w: w}
	w.handler.ServeHTTP(writer, r)
	if n := strings.Count(out.Body.String(), `"bk_agent_id"`); out.Code != http.StatusOK || n != 2001 ||
		writer.writes < 2 {
		t.Errorf("HTTP %d, %d rows in %d writes", out.Code, n, writer.writes)
	}
}

// TestAPageOfANamespaceIsWhole: where rows are large they are read some at a time, and the caller has as many as he has
// asked for.
func TestAPageOfANamespaceIsWhole(t *testing.T) {
	w := newWorld(t)
	for i := range 7 {
		w.observed = append(w.observed,
			store.Observed{
				Agent: "UAGENT1", Process: process.ID{Namespace: "ns", Name: fmt.Sprint(i)},
				Status: running,
			})
	}
	for _, atOnce := range []int{0, 1, 2, 3, 7} {
		w.pageRows = atOnce
		for _, c := range []struct{ start, limit, want int }{
			{0, 100, 7},
			{0, 5, 5},
			{2, 3, 3},
			{6, 5, 1},
			{7, 5, 0},
			{20, 5, 0},
		} {
			rows, count := w.rows(gatewayV2+"sync_proc_status",
				fmt.Sprintf(`{"meta": {"namespace": "ns"}, "page": {"start": %d, "limit": %d}}`, c.start, c.limit))
			if len(rows) != c.want || count != 7 {
				t.Errorf("%d from %d, %d at once: %d rows of %d, want %d of 7", c.limit, c.start, atOnce, len(rows),
					count, c.want)
			}
			for i, r := range rows {
				if r.Meta.Name != fmt.Sprint(c.start+i) {
					t.Errorf("row %d from %d is %s", i, c.start, r.Meta.Name)
				}
			}
		}
	}
}
