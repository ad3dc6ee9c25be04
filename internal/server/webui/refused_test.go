package webui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drover/internal/server/store"
)

var (
	postForm = regexp.MustCompile(`(?s)<form method="post"([^>]*)>(.*?)</form>`)
	field    = regexp.MustCompile(`<(input|textarea|select)\b([^>]*)>`)
	button   = regexp.MustCompile(`<button[^>]* name="do" value="([^"]*)"`)
	action   = regexp.MustCompile(`action="([^"]*)"`)
)

func attributeOf(tag, name string) string {
	_, rest, _ := strings.Cut(tag, " "+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// TestRefusedForms: each form of a page that is refused comes back, open, with what was typed and why.
func TestRefusedForms(t *testing.T) {
	r := newRig(t)
	r.join(0, "10.0.0.1")
	r.signIn()
	if err := r.store.CreateApp(r.Context(), store.App{Code: "bk", Created: r.now}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range []string{
		"/ui/admin/people?name=anna", "/ui/admin/apps?code=bk", "/ui/admin/tokens", "/ui/admin/proxies",
		"/ui/processes?namespace=shop", "/ui/hosts/0:10.0.0.1",
	} {
		status, _, text := r.get(page)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", page, status)
		}
		for _, form := range postForm.FindAllStringSubmatch(text, -1) {
			at, _, _ := strings.Cut(page, "?")
			if a := action.FindStringSubmatch(form[1]); a != nil {
				at = html.UnescapeString(a[1])
			}
			in, typed := url.Values{}, map[string]string{}
			for _, f := range field.FindAllStringSubmatch(form[2], -1) {
				name := attributeOf(f[2], "name")
				switch attributeOf(f[2], "type") {
				case "hidden":
					in.Add(name, attributeOf(f[2], "value"))
				case "checkbox", "radio", "password":
				default:
					if f[1] != "select" {
						typed[name] = `"<` + name + `>" &` + "\u200b" + strings.Repeat("x", 300)
						in.Set(name, typed[name])
					}
				}
			}
			if len(typed) == 0 || at == "/ui/processes/paste" { // it takes nearly every text
				continue
			}
			seen++
			if b := button.FindStringSubmatch(form[2]); b != nil {
				in.Set("do", b[1])
			}
			name := fmt.Sprintf("%s: %s %s", page, at, in.Get("do"))
			status, _, text := r.call(http.MethodPost, at, in)
			if status < 400 || status >= 500 || strings.Count(text, `role="alert"`) != 1 {
				t.Errorf("%s: status %d, %d problems", name, status, strings.Count(text, `role="alert"`))
				continue
			}
			before, after, _ := strings.Cut(text, `role="alert"`)
			after, _, _ = strings.Cut(after, "</form>")
			for _, value := range typed {
				if !strings.Contains(after, html.EscapeString(value)) {
					t.Errorf("%s: the form has lost %.30q:\n%.3000s", name, value, after)
				}
			}
			last := before[strings.LastIndex(before, "<form"):]
			if strings.Contains(last, "</form>") {
				t.Errorf("%s: the problem is not in the form", name)
			}
			if inside := strings.LastIndex(before, "<details"); inside > strings.LastIndex(before, "</details>") {
				if around, _, _ := strings.Cut(before[inside:], ">"); !strings.Contains(around, " open") {
					t.Errorf("%s: the form is closed", name)
				}
			}
			if n := strings.Count(text, "<details class=\"card\" open"); n > 1 {
				t.Errorf("%s: %d forms are open", name, n)
			}
		}
	}
	if seen < 12 {
		t.Errorf("%d forms were tried", seen)
	}
}

// TestConfirmationKeepsReason: a confirmation with a wrong number keeps what else was typed.
func TestConfirmationKeepsReason(t *testing.T) {
	r := newRig(t)
	host := r.join(0, "10.0.0.1")
	r.observe(host, "running", "api")
	r.signIn()
	_, _, text := r.get("/ui/processes")
	chosen := target.FindStringSubmatch(text)
	if chosen == nil {
		t.Fatal(text)
	}
	form := url.Values{"op": {"kill"}, "target": {chosen[1]}, "back": {"/ui/processes"}}
	_, _, text = r.call(http.MethodPost, "/ui/operate", form)
	_, after, _ := strings.Cut(text, `name="selection" value="`)
	id, _, found := strings.Cut(after, `"`)
	if !found {
		t.Fatal(text)
	}
	_, _, text = r.call(http.MethodPost, "/ui/operate", url.Values{
		"op": {"kill"}, "selection": {id}, "back": {"/ui/processes"}, "confirm": {"7"}, "reason": {`it "hangs"`},
	})
	if !strings.Contains(text, "That is not the number") || !strings.Contains(text, html.EscapeString(`it "hangs"`)) {
		t.Error(text)
	}
}

// TestFormsNamePages: each form names the page that shows it again.
func TestFormsNamePages(t *testing.T) {
	pages, err := filepath.Glob("pages/*.html")
	if err != nil {
		t.Fatal(err)
	}
	given := strings.NewReplacer(`{{template "person" `, `name="back"`, `{{template "app" `, `name="back"`,
		`{{template "receiver" `, `name="back"`, `{{template "key" `, `name="back"`, `{{template "base" `, `name="back"`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range postForm.FindAllStringSubmatch(given.Replace(string(text)), -1) {
			if !strings.Contains(form[2], `name="back"`) && !strings.Contains(form[1], `"/ui/logout"`) &&
				!strings.Contains(form[1], `"/ui/login"`) {
				t.Errorf("%s: %.200s", page, form[0])
			}
		}
	}
}

// TestProblemOfAFormThatIsGone: the problem stands at the top of the page.
func TestProblemOfAFormThatIsGone(t *testing.T) {
	r := newRig(t)
	r.signIn()
	status, _, text := r.call(http.MethodPost, "/ui/admin/people", url.Values{
		"do": {"grant"}, "name": {"nobody"}, "right": {"viewer on *"}, "back": {"/ui/admin/people"},
	})
	top, _, _ := strings.Cut(text, "<h1>")
	if status != http.StatusNotFound || !strings.Contains(top, `role="alert"`) {
		t.Errorf("%d %s", status, text)
	}
}
