package webui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"drover/internal/server/store"
)

// TestRightsComeBeforeTheParser: the file of a person without rights is not read, however wrong it is; a costly one of
// others is refused.
func TestRightsComeBeforeTheParser(t *testing.T) {
	r := newRig(t)
	r.must(r.store.CreateUser(t.Context(), store.User{Name: "eve", Created: r.now}))
	form := url.Values{"text": {strings.Repeat("[", 120_000)}}
	r.call(http.MethodPost, "/ui/login", url.Values{"code": {r.linkFor("eve")}})
	status, _, page := r.call(http.MethodPost, "/ui/apply", form)
	if status != http.StatusForbidden || !strings.Contains(page, "has no rights") {
		t.Errorf("a person without rights gets %d %.500s", status, page)
	}
	r.http = r.browser()
	r.signIn()
	status, _, page = r.call(http.MethodPost, "/ui/apply", form)
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "nested more than 32 levels deep") {
		t.Errorf("an administrator gets %d %s", status, page[strings.Index(page, "<main"):])
	}
}
