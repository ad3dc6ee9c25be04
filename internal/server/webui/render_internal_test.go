package webui

import (
	"html/template"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/words"
)

// TestStateOfTask: a task that ended with failures does not look like one that succeeded.
func TestStateOfTask(t *testing.T) {
	t.Parallel()
	for _, lang := range []words.Lang{words.English, words.Chinese} {
		pages, err := template.New("").Funcs(functions(lang, time.Now)).Funcs(spoken(lang)).
			Funcs(template.FuncMap{"asset": func(string) string { return "" }}).ParseFS(pageFiles, "pages/*.html")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			state  string
			failed int
			word   words.Text
			class  words.Class
		}{
			{"done", 0, words.State("done"), words.Good},
			{"done", 1, words.State("done-with-failures"), words.Bad},
			{"running", 1, words.State("running"), words.Good},
		} {
			var out strings.Builder
			task := v1.Task{State: c.state, Counts: v1.Counts{Targets: 2, Failed: c.failed}}
			if err := pages.ExecuteTemplate(&out, "result", task); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.Contains(got, " "+c.word.In(lang)+"<") || !strings.Contains(got, string(c.class)) {
				t.Errorf("%s with %d failures is %s, want %q as %s", c.state, c.failed, got, c.word.In(lang), c.class)
			}
		}
	}
}

// TestSubjectOfTask: a task over several processes does not look like one over its first.
func TestSubjectOfTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lang     words.Lang
		requests int
		want     string
	}{
		{words.English, 1, "shop/api"},
		{words.English, 8, "shop/api and 7 more"},
		{words.Chinese, 8, "shop/api 还有 7 个"},
	} {
		subject, ok := functions(c.lang, time.Now)["subject"].(func(v1.Task) string)
		if !ok {
			t.Fatal("the pages have no subject")
		}
		if got := subject(v1.Task{Subject: "shop/api", Requests: c.requests}); got != c.want {
			t.Errorf("%d requests are %q, want %q", c.requests, got, c.want)
		}
	}
}
