package webui

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"drover/client"
	"drover/internal/words"
)

// functions are those of the templates in a language.
func functions(lang words.Lang) template.FuncMap {
	return template.FuncMap{
		"page":   func() any { return words.Page },
		"head":   func() any { return words.Head },
		"act":    func() any { return words.Act },
		"t":      func(t words.Text, args ...any) string { return t.In(lang, args...) },
		"state":  func(id string) string { return words.State(id).In(lang) },
		"class":  class,
		"mark":   mark,
		"when":   when,
		"safe":   visible,
		"join":   func(list []string) string { return strings.Join(list, ", ") },
		"path":   path,
		"inc":    func(n int) int { return n + 1 },
		"target": func(p client.Process) string { return target{p.Namespace, p.Name, p.Host.ID}.Text() },
	}
}

// path is the path of a page of the console; each part is escaped.
func path(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return Prefix + strings.Join(escaped, "/")
}

// moment is a time as pages show it. A script shows it in the time zone of the browser.
type moment struct{ ISO, Text string }

func when(t any) moment {
	var at time.Time
	switch v := t.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v != nil {
			at = *v
		}
	}
	if at.IsZero() {
		return moment{}
	}
	return moment{at.UTC().Format(time.RFC3339), at.UTC().Format("2006-01-02 15:04:05 UTC")}
}

// visible makes the control characters of a text from a host visible, so that it can neither reorder nor hide what
// stands beside it.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return '\u2400' + r
		case r == 0x7f:
			return '\u2421'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// class is the class of a state in the style sheet: its colour. mark is its shape.
func class(state string) string {
	switch state {
	case "running", "online", "ok", "done":
		return "good"
	case "starting", "stopping", "operating", "pending", "begun", "baking":
		return "busy"
	case "flapping", "backoff", "not-ready", "warning", "held", "paused", "agent-unavailable":
		return "warn"
	case "unhealthy", "given-up", "failed", "critical", "check-failed", "aborted":
		return "bad"
	case "unknown", "away", "stale":
		return "unsure"
	default:
		return "idle"
	}
}

func mark(state string) string {
	switch class(state) {
	case "good":
		return "●"
	case "busy":
		return "◐"
	case "warn":
		return "▲"
	case "bad":
		return "✖"
	case "unsure":
		return "?"
	default:
		return "■"
	}
}

// frame is what every page shows around its content.
type frame struct {
	Title, Lang, Here, User string
	Other                   string
	Now                     time.Time
	Body                    any
}

// render writes a page. Nothing is sent before the whole page is rendered.
func (v *view) render(status int, name string, body any) {
	other := words.Chinese
	if v.lang == words.Chinese {
		other = words.English
	}
	f := frame{
		Title: v.r.URL.Path, Lang: v.lang.Tag(), Here: v.r.URL.RequestURI(), User: v.who.User, Other: other.Tag(),
		Now: v.Now(), Body: body,
	}
	var page bytes.Buffer
	if err := v.pages[v.lang].ExecuteTemplate(&page, name+".html", f); err != nil {
		v.Log.Error("cannot render page", "page", name, "error", err)
		http.Error(v.w, words.Page.Failed.In(v.lang), http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Language", f.Lang)
	v.w.WriteHeader(status)
	_, _ = v.w.Write(page.Bytes()) // the browser has hung up
}
