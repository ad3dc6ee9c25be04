package receiver_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/receiver"
	"drover/internal/server/store"
)

// checked returns why a receiver of a kind cannot have a template as its body.
func checked(kind store.ReceiverKind, text string) (problem error) {
	receiver.CheckTemplates(&store.Receiver{Kind: kind, Body: text}, func(field string, err error) {
		problem = errors.Join(problem, err)
		if field != "body" {
			problem = errors.New("the field is " + field)
		}
	})
	return problem
}

// TestTemplates: a template is checked with a sample, and one that fails later all the same costs no alarm.
func TestTemplates(t *testing.T) {
	for text, problem := range map[string]string{
		"": "", "{{.Count}} of {{(index .Alarms 1).Namespace}}": "", "{{range .Alarms}}{{.Text}}{{end}}": "",
		"{{": "not a template", "{{.None}}": "cannot fill", "{{(index .Alarms 7).Kind}}": "cannot fill",
		strings.Repeat("x", 10_001): "at most 10000", `{{printf "%0300000d" 1}}`: "widths below 100",
		`{{range $i, $a := .Alarms}}{{$i}} {{printf "%-20s" $a.Text}}{{end}}`: "",
		`{{range 9999999999999}}{{end}}`:                                      "only one loop",
		`{{range .Alarms}}{{range $.Alarms}}{{end}}{{end}}`:                   "only one loop",
		`{{if gt .Count 2}}{{range 9}}{{end}}{{end}}`:                         "only one loop",
		`{{$x := "a"}}{{range .Alarms}}{{$x = print $x $x}}{{end}}`:           "assigns",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:               "template",
		`{{clip 3 .Text}} {{.Subject | clip 9 | json}}`:                       "", `{{clip "3" .Text}}`: "cannot fill",
		`{{printf .Kind 1}}`:               "format in quotes",
		`{{len (printf "%*d" 9999999 1)}}`: "widths below 100",
	} {
		err := checked(store.KindEmail, text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%.40q: %v, want %q", text, err, problem)
		}
	}
	p := openPostOffice(t, "localhost", false)
	to := p.mailing()
	to.Subject, to.Body = "{{.Count}}\n: {{(index .Alarms 0).Kind}}", "{{(index .Alarms 1).Kind}}"
	s := receiver.New(receiver.Config{Now: time.Now, Roots: p.roots})
	if err := s.Test(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	got := <-p.got
	if !strings.Contains(got.header, "Subject: 1 : relaunched\n") ||
		!strings.HasPrefix(got.text, "drover used its own text, because the template of this receiver failed") ||
		!strings.Contains(got.text, "drover/test") {
		t.Errorf("%s\n\n%s", got.header, got.text)
	}
}

// TestJSONTemplates: what a webhook gets is JSON, whatever the alarms say.
func TestJSONTemplates(t *testing.T) {
	for text, problem := range map[string]string{
		"": "", `{"text":{{json .Text}}}`: "", `{{json .Alarms}}`: "", `{"text":{{.Text | clip 2000 | json}}}`: "",
		`{"text":"{{.Text}}"}`: "put a text in as {{json .Text}}", `{"text":"{{(index .Alarms 0).Process}}"}`: "put a text in",
		"plain": "does not make JSON", `{} {}`: "does not make JSON", `{{json .None}}`: "cannot fill",
	} {
		err := checked(store.KindWebhook, text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%.40q: %v, want %q", text, err, problem)
		}
	}
	if err := checked(store.KindAlertmanager, "{}"); err == nil {
		t.Error("an alertmanager takes a form that is not its own")
	}
	receiver.CheckTemplates(&store.Receiver{Kind: store.KindWebhook, Subject: "x"}, func(field string, err error) {
		if field != "subject" || !strings.Contains(err.Error(), "email") {
			t.Errorf("%s: %v", field, err)
		}
	})

	r := receive(t, ok)
	d := newDisk(store.Receiver{
		Name: "chat", Kind: store.KindWebhook, URL: r.URL, Secret: "secret", Local: true,
		Body: `{"msgtype":"text","text":{"content":{{.Text | clip 60 | json}}},"n":{{.Count}},"all":{{json .Alarms}}}`,
	})
	d.happen(2)
	d.events[1].Event.Kind = process.EventGivenUp
	d.events[1].Event.Cause = process.Cause{ID: process.CauseExited, Text: `it said "no"` + "\n\x1b[31m"}
	run(t, d)
	got := <-r.got
	var message struct {
		Text struct{ Content string }
		N    int
		All  []struct{ Kind, Namespace, Process, Host, Text, Cause string }
	}
	if err := json.Unmarshal(got.body, &message); err != nil {
		t.Fatalf("%s: %v", got.body, err)
	}
	if message.N != 2 || len(message.All) != 2 || message.All[1].Kind != "given-up" || message.All[1].Process != "p2" ||
		message.All[1].Host != "10.0.0.1" || !strings.Contains(message.All[1].Text, `"no"`) ||
		!strings.Contains(message.Text.Content, "ns/p1") || len(message.Text.Content) > 60 ||
		!strings.HasSuffix(message.Text.Content, "…") {
		t.Errorf("got %s", got.body)
	}
	if got.signature == "" || got.name == "" {
		t.Errorf("signature %q of %q", got.signature, got.name)
	}
}

// TestChatThatRefuses: a chat refuses a message with the status 200 and a code in the answer.
func TestChatThatRefuses(t *testing.T) {
	for answer, problem := range map[string]string{
		`{"errcode":93000,"errmsg":"invalid webhook url"}`: "answered 200 OK with errcode 93000",
		`{"code":19001,"msg":"param invalid"}`:             "answered 200 OK with code 19001",
		`{"errcode":0,"errmsg":"ok"}`:                      "", `{"code":0}`: "", "ok": "", "": "", `{"code":200,"msg":"ok"}`: "", `{"code":"200"}`: "", "[1]": "",
	} {
		r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
		to := store.Receiver{Name: "chat", Kind: store.KindWebhook, URL: r.URL, Local: true, Body: "{}"}
		s := receiver.New(receiver.Config{Now: time.Now})
		if err := s.Test(t.Context(), to); (err == nil) != (problem == "") || err != nil && err.Error() != problem {
			t.Errorf("%q: %v, want %q", answer, err, problem)
		}
		to.Body = "" // a receiver of drover's own form answers what it wants
		if err := s.Test(t.Context(), to); err != nil {
			t.Errorf("%q without a template: %v", answer, err)
		}
	}
}

// TestTemplateThatFails: the alarms wait, the receiver shows why, and a mended template delivers them.
func TestTemplateThatFails(t *testing.T) {
	r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	d := newDisk(store.Receiver{
		Name: "chat", Kind: store.KindWebhook, URL: r.URL, Secret: "secret", Local: true,
		Body: `{"second":{{json (index .Alarms 1).Text}}}`, // the sample has two
	})
	if err := checked(store.KindWebhook, d.hooks[0].Body); err != nil {
		t.Fatal(err)
	}
	d.happen(1)
	s := run(t, d)
	if noted := <-d.noted; noted.Failures != 1 || !strings.Contains(noted.Error, "the template of the body cannot fill") ||
		noted.Cursor != 0 {
		t.Errorf("noted %+v", noted)
	}
	if err := s.Test(t.Context(), d.hooks[0]); err == nil || !strings.Contains(err.Error(), "the template of the body") {
		t.Errorf("a test says %v", err)
	}
	d.mu.Lock()
	d.hooks[0].Body, d.hooks[0].Changed = `{"n":{{.Count}}}`, time.Now()
	d.mu.Unlock()
	s.Changed()
	if got := <-r.got; string(got.body) != `{"n":1}` {
		t.Errorf("got %s", got.body)
	}
}
