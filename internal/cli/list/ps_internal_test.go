package list

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAHostThatLacksIt: ps and status show the processes of the other hosts, and then name the host that lacks them.
func TestAHostThatLacksIt(t *testing.T) {
	t.Setenv("DROVER_APP_CODE", "code")
	t.Setenv("DROVER_APP_SECRET", "secret")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/processes") {
			_, _ = io.WriteString(w, `{"items":[{"id":"a","key":"A"},{"id":"b","key":"B"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{"namespace":"shop","name":"web","state":"running","host":{"id":"a"}}]}`)
	}))
	defer s.Close()
	for name, cmd := range map[string]*cobra.Command{"ps": NewPs(), "status": NewStatus()} {
		var out, talk bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&talk)
		cmd.SetArgs([]string{"shop/web", "--hosts", "a,b", "--server", s.URL})
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "host b has no process that matches shop/web") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if !strings.Contains(out.String(), "shop/web") || !strings.Contains(out.String(), "running") {
			t.Errorf("%s shows %q", name, out.String())
		}
	}
}
