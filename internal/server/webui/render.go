package webui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/words"
)

// functions returns the functions of the templates in a language.
func functions(lang words.Lang, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"page":       func() any { return words.Page },
		"head":       func() any { return words.Head },
		"act":        func() any { return words.Act },
		"session":    func() any { return words.Session },
		"apply":      func() any { return words.Apply },
		"audit":      func() any { return words.Audit },
		"admin":      func() any { return words.Admin },
		"alarms":     func() any { return words.Alarms },
		"logs":       func() any { return words.Logs },
		"views":      func() any { return words.Views },
		"device":     func() any { return words.Device },
		"provider":   func() any { return words.Provider },
		"fleet":      func() any { return words.Fleet },
		"usage":      func() any { return words.Usage },
		"timeline":   func() any { return words.Timeline },
		"inside":     func() any { return words.Inside },
		"tabs":       func() any { return words.Tabs },
		"others":     hiddenFilters,
		"keys":       func() any { return words.Keys },
		"value":      fieldValue,
		"who":        caller,
		"right":      func(g v1.Grant) string { return access.Grant(g).String() },
		"rightEnded": func(g v1.Grant) bool { right := access.Grant(g); return right.Ended(now()) },
		"size":       byteSize,
		"personPage": func(name string) string { return path("admin", "people") + "?name=" + url.QueryEscape(name) },
		"appPage":    func(code string) string { return path("admin", "apps") + "?code=" + url.QueryEscape(code) },
		"kinds": func() []string {
			return []string{v1.ReceiverWebhook, v1.ReceiverAlertmanager, v1.ReceiverEmail}
		},
		"hostsFile": func(task, outcome string) string { return ofOutcome(path("tasks", task, "hosts.txt"), outcome) },
		"receiverPage": func(name string) string {
			return path("admin", "receivers") + "?name=" + url.QueryEscape(name)
		},
		"stamp":   func(t time.Time) string { return t.Format(time.RFC3339Nano) },
		"t":       func(t words.Text, args ...any) string { return t.In(lang, args...) },
		"note":    func(note string) string { return words.Note(note, lang) },
		"told":    func(said string) string { return words.Message(said, lang) },
		"stateOf": func(e v1.Event) string { return words.EventState(e.Kind, e.To) },
		"revised": func(e v1.Event) int64 {
			if e.Kind != string(process.EventUpdated) { // of others it is that of the instance
				return 0
			}
			return e.Revision
		},
		"atHost": atHost,
		"subject": func(o v1.Task) string {
			if o.Requests < 2 {
				return o.Subject
			}
			return o.Subject + " " + words.Explained.More.In(lang, "n", o.Requests-1)
		},
		"op":     func(id string) string { return words.Did(id, lang) },
		"probed": probed,
		"kind":   words.Kind,
		"actor":  words.Actor,
		"by":     func(a v1.Actor) string { return byline(a, lang) },
		"state":  func(id string) string { return words.State(id).In(lang) },
		"class":  words.ClassOf,
		"result": words.Result,
		"mark":   func(id string) string { return words.ClassOf(id).Mark() },
		"when":   when,
		"safe":   visible,
		"join":   func(list []string) string { return strings.Join(list, ", ") },
		"first":  func(list []string) []string { return list[:min(len(list), few)] },
		"rest":   func(list []string) int { return max(0, len(list)-few) },
		"path":   path,
		"inc":    func(n int) int { return n + 1 },
		"target": func(p v1.Process) string { return target{p.Namespace, p.Name, p.Host.ID}.Text() },
	}
}

// atHost is the page that tells most about a host of a rollout: that of the process there, or that of the host if the
// rollout has several processes.
func atHost(r v1.Rollout, host string) string {
	if len(r.Processes) != 1 || strings.Contains(r.Processes[0], "@") || r.Processes[0] == process.AgentID().String() {
		return path("hosts", host)
	}
	namespace, name, _ := strings.Cut(r.Processes[0], "/")
	return path("processes", namespace, name, "at", host)
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

// caller names who made a call: the user, and the app if the user did not call alone.
func caller(app, user string) string {
	switch {
	case app == "" || app == access.PersonApp(user):
		return user
	case user == "":
		return app
	default:
		return user + " · " + app
	}
}

// byline names the caller of an actor, and why a server began the operation by itself; empty if there is no caller.
func byline(a v1.Actor, lang words.Lang) string {
	who := caller(a.App, a.User)
	if who != "" && a.Reason != "" {
		reason, _ := words.Sentence(a.Reason, lang)
		who += " · " + reason
	}
	return who
}

// byteSize shows a number of bytes with its unit.
func byteSize(n int64) string {
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && size >= 1024 {
		size, units = size/1024, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[0]
}

// frame is the part that every page shows around its content.
type frame struct {
	// Here is the address that shows this page, or after a form the page with the form.
	Title, Lang, Here, User string
	// Section is the first part of the path, and Other the other language.
	Section, Other string
	Admin          bool
	// Crumbs are the pages above this one.
	Crumbs []crumb
	// Again is set on a page that shows a refused form again: the browser has another address.
	Again bool
	Now   time.Time
	Body  any
}

// crumb is a page above another one: its name is a word, or a text of the fleet.
type crumb struct {
	URL, Text string
	Word      words.Text
}

// crumbs returns the pages above the page of one thing, the first part of whose path is the section; none for others.
func crumbs(section string, r *http.Request) []crumb {
	namespace, name := cmp.Or(r.PathValue("namespace"), r.PathValue("namespace")), r.PathValue("name")
	host, id := r.PathValue("host"), r.PathValue("id")
	lists := map[string]words.Text{
		"processes": words.Page.Processes, "hosts": words.Page.Hosts, "tasks": words.Page.Tasks,
		"rollouts": words.Page.Rollouts,
	}
	word, known := lists[section]
	if !known || name+host+id == "" {
		return nil
	}
	all := []crumb{{URL: path(section), Word: word}}
	if name != "" {
		within := path(section) + "?namespace=" + url.QueryEscape(literal(namespace))
		all = append(all, crumb{URL: within, Text: namespace})
	}
	if name != "" && host != "" {
		all = append(all, crumb{URL: path(section, namespace, name), Text: name})
	}
	return all
}

// title is the title of a page in the browser, with what it is about first.
func title(section, rest string, l words.Lang) string {
	text, known := map[string]words.Text{
		"": words.Page.Overview, "processes": words.Page.Processes, "hosts": words.Page.Hosts,
		"tasks": words.Page.Tasks, "rollouts": words.Page.Rollouts, "events": words.Page.Events,
		"apply": words.Apply.Title, "silences": words.Alarms.Silences,
		"audit": words.Page.Audit, "admin": words.Page.Admin, "sessions": words.Session.Mine,
		"login": words.Page.SignIn, "operate": words.Act.Confirm, "why": words.Head.Why, "device": words.Device.Title,
	}[section]
	if !known {
		return section
	}
	if rest != "" {
		return rest + " – " + text.In(l)
	}
	return text.In(l)
}

// render writes a page. Nothing is sent before the whole page is rendered.
func (v *view) render(status int, name string, body any) {
	other := words.Chinese
	if v.lang == words.Chinese {
		other = words.English
	}
	section, rest, _ := strings.Cut(strings.TrimPrefix(v.r.URL.Path, Prefix), "/")
	here := v.r.URL.RequestURI()
	if v.r.Method == http.MethodPost { // nobody can open this address again
		here = backTo(v.r.PostFormValue("back"))
	}
	f := frame{
		Section: section, Admin: v.who.Admin, Title: title(section, rest, v.lang), Lang: v.lang.Tag(),
		Here: here, User: v.who.User, Other: other.Tag(), Again: v.refused != nil && v.r.Method == http.MethodGet,
		Now: v.Now(), Body: body,
	}
	if status == http.StatusOK { // what is not there is not below another page
		f.Crumbs = crumbs(section, v.r)
	}
	if v.forMany {
		f.User = ""
	}
	var page bytes.Buffer
	if err := v.pages[v.lang].ExecuteTemplate(&page, name+".html", f); err != nil {
		v.Log.Error("cannot render page", "page", name, "error", err)
		http.Error(v.w, words.Page.Failed.In(v.lang), http.StatusInternalServerError)
		return
	}
	if f := v.refused; f != nil && status == http.StatusOK {
		var problem bytes.Buffer
		if err := v.pages[v.lang].ExecuteTemplate(&problem, "problem", f.problem); err != nil {
			v.Log.Error("cannot render problem", "error", err)
		}
		v.send(f.status, f.shownIn(page.Bytes(), v.r.URL.Path, problem.Bytes()))
		return
	}
	v.send(status, page.Bytes())
}

// linking are the attributes of pages that hold paths for the browser. Values of inputs hold paths for backTo.
func linking() []string { return []string{"href", "action", "src", "data-follow", "data-here"} }

// below returns a page whose links have the base path. No text of a page has a quotation mark, so each match is an
// attribute.
func below(base string, html []byte) []byte {
	if base == "" {
		return html
	}
	for _, name := range linking() {
		html = bytes.ReplaceAll(html, []byte(name+`="`+Prefix), []byte(name+`="`+base+Prefix))
	}
	return html
}

// send sends a page.
func (v *view) send(status int, html []byte) {
	html = below(v.BasePath, html)
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Language", v.lang.Tag())
	v.w.WriteHeader(status)
	_, _ = v.w.Write(html) // the browser has hung up
}

// files are the style sheet and the scripts of all pages. Their path has a hash of all of them: a browser keeps them as
// long as it likes, and imports between scripts stay within one version.
type files struct {
	version string
	of      map[string]file
}

type file struct {
	kind         string
	plain, small []byte // small is compressed by gzip
}

// readFiles reads and compresses the files of the directory assets. Paths of the console in scripts get the base path.
func readFiles(from fs.FS, base string) (files, error) {
	all, sum := files{of: map[string]file{}}, sha256.New()
	list, err := fs.ReadDir(from, "assets")
	if err != nil {
		return files{}, err
	}
	for _, entry := range list {
		plain, err := fs.ReadFile(from, "assets/"+entry.Name())
		if err != nil {
			return files{}, err
		}
		plain = bytes.ReplaceAll(plain, []byte(`"`+Prefix), []byte(`"`+base+Prefix))
		var small bytes.Buffer
		w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
		if err == nil {
			_, err = w.Write(plain)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return files{}, err
		}
		kind := mime.TypeByExtension(filepath.Ext(entry.Name()))
		all.of[entry.Name()] = file{kind: kind, plain: plain, small: small.Bytes()}
		_, _ = sum.Write(append([]byte(entry.Name()+"\x00"), plain...)) // a hash takes all
	}
	all.version = hex.EncodeToString(sum.Sum(nil))[:16]
	return all, nil
}

// url is the path of a file.
func (f files) url(name string) string { return Prefix + "assets/" + f.version + "/" + name }

// ServeHTTP implements http.Handler. A page of another version of the server gets the file of this one, which the
// browser then does not keep.
func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, there := f.of[r.PathValue("name")]
	if !there {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", one.kind)
	header.Set("Vary", "Accept-Encoding")
	if r.PathValue("version") == f.version {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data := one.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		data = one.small
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the browser has hung up
}
