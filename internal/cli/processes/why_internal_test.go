package processes

import (
	"regexp"
	"strings"
	"testing"

	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/words"
)

// TestStateOfNotice: a process that runs without a part of its spec is not as it should be, although nothing is wrong.
func TestStateOfNotice(t *testing.T) {
	for cause, want := range map[string]string{"not-in-force": "notice", "stopped-by-operation": "as it should be"} {
		p := whyPrinter{lang: words.English}
		f := client.Finding{Severity: "notice", Impact: "it runs, and drover watches it"}
		f.Cause.ID = cause
		if got := p.state(f); !strings.HasPrefix(got, want+":") {
			t.Errorf("%s: %q", cause, got)
		}
	}
}

// TestCommandsOfRemedies: each command that a remedy names gets the name of the process, but that of an import.
func TestCommandsOfRemedies(t *testing.T) {
	quoted := regexp.MustCompile("`drover [^`]*`")
	for id, c := range words.Causes {
		for _, lang := range []words.Lang{words.English, words.Chinese} {
			for _, command := range quoted.FindAllString(c.Remedy.In(lang), -1) {
				if namedCommand.FindString(command) != command && command != "`drover import --adopt`" {
					t.Errorf("%s: %s is not completed", id, command)
				}
			}
		}
	}
	p := whyPrinter{lang: words.English, session: &remote.Session{}}
	p.answer.Causes = []client.CauseCount{{ID: "suspended", Title: "x", Remedy: words.Causes["suspended"].Remedy.In(words.English)}}
	f := client.Finding{Namespace: "shop", Name: "api"}
	f.Cause.ID, f.Host.ID = "suspended", "web-1"
	var b strings.Builder
	if p.remedy(&b, f); !strings.Contains(b.String(), "'drover signal CONT shop/api --hosts web-1'") {
		t.Error(b.String())
	}
}
