package webui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	v1 "drover/api/v1"
)

// refused is a form that the console or the API has refused: its page shows it again, open, with what was typed.
type refused struct {
	// status is the HTTP status of the answer.
	status int
	// problem is why; empty if the page tells it itself.
	problem string
	// path is where the form was sent, and in its fields.
	path string
	in   url.Values
}

// ofRefused is the key of a *refused in the context of the call that shows its page.
type ofRefused struct{}

// refusedForm is the form of a call that was refused.
func (v *view) refusedForm(status int, problem string) *refused {
	return &refused{status: status, problem: problem, path: v.r.URL.Path, in: v.r.PostForm}
}

// askAgain answers a form that was refused with the page that it came from. It reports false for other errors, and for
// a form that names no page.
func (v *view) askAgain(ctx context.Context, err error) bool {
	known, ok := errors.AsType[*v1.Problem](err)
	back, _ := url.Parse(backTo(v.r.PostFormValue("back")))
	if !ok || known.Status >= http.StatusInternalServerError || known.Detail == "" || back == nil ||
		v.r.Method != http.MethodPost || v.r.PostFormValue("back") == "" {
		return false
	}
	r := v.r.Clone(context.WithValue(ctx, ofRefused{}, v.refusedForm(known.Status, v.refusal(known))))
	r.Method, r.URL, r.Body, r.Form, r.PostForm = http.MethodGet, back, http.NoBody, nil, nil
	r.RequestURI = back.RequestURI()
	v.mux.ServeHTTP(v.w, r)
	return true
}

// tags are the tags of forms. No text of a page has a sign of a tag, and no value a quotation mark, so each match is a
// tag.
var tags = regexp.MustCompile(`<(/?)(main|details|form|input|textarea|select|option|button)\b((?:[^>"]|"[^"]*")*)>`)

// tag is one tag of a page, at a place of its text.
type tag struct {
	from, to   int
	name       string
	end        bool
	attributes map[string]string
}

var attribute = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)

func tagsOf(page []byte) []tag {
	found := tags.FindAllSubmatchIndex(page, -1)
	list := make([]tag, len(found))
	for i, at := range found {
		t := tag{
			from: at[0], to: at[1], end: at[3] > at[2], name: string(page[at[4]:at[5]]),
			attributes: map[string]string{},
		}
		for _, a := range attribute.FindAllSubmatch(page[at[6]:at[7]], -1) {
			t.attributes[string(a[1])] = html.UnescapeString(string(a[2]))
		}
		list[i] = t
	}
	return list
}

// has reports whether the tag has an attribute.
func (t *tag) has(name string) bool {
	_, ok := t.attributes[name]
	return ok
}

// shownIn returns a page, whose path is here, with the refused form as it was sent, and with the problem in it.
// The problem of a form that the page does not have stands at its top.
func (f *refused) shownIn(page []byte, here string, problem []byte) []byte {
	all := tagsOf(page)
	put := changes{}
	if first, last := f.find(all, here); last > first {
		f.open(all[:first], put)
		put.after(&all[first], problem)
		f.fill(page, all[first:last], put)
	} else if i := slices.IndexFunc(all, func(t tag) bool { return t.name == "main" }); i >= 0 {
		put.after(&all[i], problem)
	}
	return put.in(page)
}

// find returns the place of the form in the tags of a page, up to its end; first is last if the page does not have it.
func (f *refused) find(all []tag, here string) (first, last int) {
	for i := range all {
		if t := &all[i]; t.name != "form" || t.end || t.attributes["method"] != "post" {
			continue
		}
		end := i + slices.IndexFunc(all[i:], func(t tag) bool { return t.name == "form" && t.end })
		if f.is(all[i:end], here) {
			return i, end
		}
	}
	return 0, 0
}

// is reports whether tags are those of the form: it goes to the same path, its hidden fields have what was sent, and it
// has the button.
func (f *refused) is(form []tag, here string) bool {
	to, err := url.Parse(form[0].attributes["action"])
	if err != nil || f.path != to.Path && (to.Path != "" || f.path != here) {
		return false
	}
	button := f.in.Get("do") == ""
	for i := range form {
		t := &form[i]
		name, value := t.attributes["name"], t.attributes["value"]
		switch {
		case t.name == "button" && name == "do" && f.in.Get("do") == value:
			button = true
		case t.name == "input" && t.attributes["type"] == "hidden" && name != "back":
			if !slices.Contains(f.in[name], value) {
				return false
			}
		}
	}
	return button
}

// open opens what holds the form.
func (f *refused) open(before []tag, put changes) {
	var around []*tag
	for i := range before {
		switch t := &before[i]; {
		case t.name != "details":
		case t.end:
			around = around[:len(around)-1]
		default:
			around = append(around, t)
		}
	}
	for _, t := range around {
		put.attribute(t, "open", true)
	}
}

// fill puts what was typed into the fields of the form, but no secrets.
func (f *refused) fill(page []byte, form []tag, put changes) {
	sent, first := "", true
	for i := range form {
		t := &form[i]
		if name := t.attributes["name"]; !t.end && name != "" {
			sent = name
		}
		values := f.in[sent]
		given := strings.Join(values[:min(1, len(values))], "")
		switch kind := t.attributes["type"]; {
		case t.end:
		case t.name == "textarea":
			put[[2]int{t.to, form[i+1].from}] = "\n" + html.EscapeString(given)
			put.attribute(t, "autofocus", first)
			first = false
		case t.name == "option":
			own, ok := t.attributes["value"]
			if !ok {
				own = html.UnescapeString(string(page[t.to:form[i+1].from]))
			}
			put.attribute(t, "selected", slices.Contains(values, own))
		case t.name != "input" || kind == "hidden" || kind == "password" || kind == "file" || !t.has("name"),
			sent == "confirm": // one Enter must not send it again
		case kind == "checkbox" || kind == "radio":
			put.attribute(t, "checked", slices.Contains(values, t.attributes["value"]))
		default:
			t.attributes["value"] = given
			delete(t.attributes, "autofocus")
			if first {
				t.attributes["autofocus"] = ""
			}
			put.tag(t)
			first = false
		}
	}
}

// changes are texts that take the places of parts of a page.
type changes map[[2]int]string

// after puts a text behind a tag.
func (c changes) after(t *tag, text []byte) { c[[2]int{t.to, t.to}] = string(text) }

// attribute gives a tag an attribute without a value, or takes it away.
func (c changes) attribute(t *tag, name string, on bool) {
	if on == t.has(name) {
		return
	}
	if delete(t.attributes, name); on {
		t.attributes[name] = ""
	}
	c.tag(t)
}

// tag writes a tag again.
func (c changes) tag(t *tag) {
	var text strings.Builder
	text.WriteString("<" + t.name)
	names := make([]string, 0, len(t.attributes))
	for name := range t.attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text.WriteString(" " + name)
		if value := t.attributes[name]; value != "" {
			text.WriteString(`="` + html.EscapeString(value) + `"`)
		}
	}
	c[[2]int{t.from, t.to}] = text.String() + ">"
}

// in makes the changes in a page.
func (c changes) in(page []byte) []byte {
	places := make([][2]int, 0, len(c))
	for at := range c {
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	var out bytes.Buffer
	done := 0
	for _, at := range places {
		out.Write(page[done:at[0]])
		out.WriteString(c[at])
		done = at[1]
	}
	out.Write(page[done:])
	return out.Bytes()
}
