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
		o.w.t.Error("rows are being read while the answer is written: a caller who does not read it holds a connection of the database")
	}
	return o.ResponseWriter.Write(p)
}

// TestNothingIsReadWhileAnAnswerIsWritten: the caller decides how long that takes.
func TestNothingIsReadWhileAnAnswerIsWritten(t *testing.T) {
	w := newWorld(t)
	id := process.ID{Namespace: "ns", Name: "x"}
	w.observed = []store.Observed{{Agent: "UAGENT1", Process: id, Status: running}}
	body := `{"meta": {"namespace": "ns", "name": "x"}, "agent_id_list": ["1:10.0.0.1"` + strings.Repeat(`,"1:10.0.0.1"`, 2000) + `]}`
	r := httptest.NewRequest(http.MethodPost, gatewayV2+"get_proc_status_v2", strings.NewReader(body))
	r.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"admin"}`, appCode, appSecret))
	out := httptest.NewRecorder()
	writer := &watched{ResponseWriter: out, w: w}
	w.handler.ServeHTTP(writer, r)
	if n := strings.Count(out.Body.String(), `"bk_agent_id"`); out.Code != http.StatusOK || n != 2001 || writer.writes < 2 {
		t.Errorf("HTTP %d, %d rows in %d writes", out.Code, n, writer.writes)
	}
}
