package why

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/cli/remote"
	"drover/internal/words"
)

// TestStateOfNotice: a process that runs without a part of its spec is not as it should be, although nothing is wrong.
func TestStateOfNotice(t *testing.T) {
	for cause, want := range map[string]string{"not-in-force": "notice", "stopped-by-operation": "as it should be"} {
		p := whyPrinter{lang: words.English}
		f := v1.Finding{Severity: "notice", Impact: "it runs, and drover watches it"}
		f.Cause.ID = cause
		if got := p.state(f); !strings.HasPrefix(got, want+":") {
			t.Errorf("%s: %q", cause, got)
		}
	}
}

// TestCommandsOfRemedies: each command that a remedy names gets the name of the process, but that of an import.
func TestCommandsOfRemedies(t *testing.T) {
	quoted := regexp.MustCompile("`drover [^`]*`")
	for _, name := range words.IDs("cause") {
		id, _, _ := strings.Cut(name, " ")
		c := words.CauseOf(id)
		for _, lang := range []words.Lang{words.English, words.Chinese} {
			for _, command := range quoted.FindAllString(c.Remedy.In(lang), -1) {
				if namedCommand.FindString(command) != command && command != "`drover import --adopt`" {
					t.Errorf("%s: %s is not completed", id, command)
				}
			}
		}
	}
	p := whyPrinter{lang: words.English, session: &remote.Session{}}
	p.answer.Causes = []v1.CauseCount{{ID: "suspended", Title: "x", Remedy: words.CauseOf("suspended").Remedy.In(words.English)}}
	f := v1.Finding{Namespace: "shop", Name: "api"}
	f.Cause.ID, f.Host.ID = "suspended", "web-1"
	var b strings.Builder
	if p.remedy(&b, f); !strings.Contains(b.String(), "'drover signal CONT shop/api --hosts web-1'") {
		t.Error(b.String())
	}
}

// stopped is a made-up server with a paused and a held rollout.
func stopped(w http.ResponseWriter, r *http.Request) {
	switch q := r.URL.Query(); {
	case strings.HasSuffix(r.URL.Path, "/why"):
		_, _ = io.WriteString(w, `{"total":3,"wrong":0,"causes":[],"findings":[]}`)
	case !strings.HasSuffix(r.URL.Path, "/rollouts"):
		_, _ = io.WriteString(w, `{"items":[]}`)
	case q.Get("state") == "paused" && q.Get("host") != "web-9":
		_, _ = io.WriteString(w, `{"items":[{"id":"ro-1","processes":["shop/db","shop/web"],"state":"paused","reason":"bad"}]}`)
	case q.Get("state") == "held":
		_, _ = io.WriteString(w, `{"items":[{"id":"ro-2","processes":["pay/api"],"state":"held","reason":"wait"}]}`)
	default:
		_, _ = io.WriteString(w, `{"items":[]}`)
	}
}

// TestStoppedRollouts: why names the rollouts that wait for a person, over what it is asked about.
func TestStoppedRollouts(t *testing.T) {
	t.Setenv("DROVER_APP_CODE", "code")
	t.Setenv("DROVER_APP_SECRET", "secret")
	s := httptest.NewServer(http.HandlerFunc(stopped))
	defer s.Close()
	const (
		paused = "paused rollout ro-1 over shop/db (+1): bad; what to do: drover rollout status ro-1\n"
		held   = "held rollout ro-2 over pay/api: wait; what to do: drover rollout status ro-2\n"
	)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, paused + held},
		{[]string{"shop/web"}, paused},
		{[]string{"pay/*"}, held},
		{[]string{"other/*"}, ""},
		{[]string{"--hosts", "web-9"}, held},
	} {
		var talk bytes.Buffer
		cmd := NewWhy()
		cmd.SetOut(&talk)
		cmd.SetErr(&talk)
		cmd.SetArgs(append(c.args, "--server", s.URL))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		_, said, _ := strings.Cut(strings.ReplaceAll(talk.String(), " --server "+s.URL, ""), "(3 processes)\n")
		if said != c.want {
			t.Errorf("%q says %q, want %q", c.args, talk.String(), c.want)
		}
	}
}
