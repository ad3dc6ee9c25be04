package browser_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
	"drover/test/judge"
)

// hostile are texts that want to be more than text. Each begins with a number of its own, by which a page is searched.
func hostile() []string {
	texts := []string{
		`<img src=x onerror=pwned=1>`, `"><svg onload=pwned=1>`, `'><svg/onload=pwned=1>`, `</script><script>pwned=1</script>`,
		`<script src=//evil.example/x></script>`, `javascript:pwned=1`, `JaVaScRiPt:pwned=1`, `" onmouseover="pwned=1`,
		`' autofocus onfocus='pwned=1`, "` onmouseover=pwned=1 `", `{{.}}`, `{{template "top" .}}`, `${pwned=1}`, `#{7*7}`,
		`<style>*{display:none}</style>`, `<base href=//evil.example/>`, `<meta http-equiv=refresh content=0>`,
		`<iframe srcdoc="<script>parent.pwned=1</script>">`, `<a href=javascript:pwned=1>x</a>`, `<form action=//evil.example>`,
		`<input name=confirm value=yes>`, `<button formaction=//evil.example>x</button>`, `</bdi></td></tr></table><h1>`,
		`</pre></section></main>`, `</textarea></title>`, `<!-- `, `-->`, `<![CDATA[`, `]]>`, `<math><mtext></mtext></math>`,
		`&lt;img src=x&gt;`, `&#60;script&#62;`, `&quot;`, "\u202Eabc\u202C", "\u2066abc\u2069", "\u200Fabc", "a\u200Bb", "a\u00ADb",
		"a\u2028b", "a\u0301\u0301\u0301\u0301", "\U000E0041", "\uFEFFa", "中文<b>粗</b>", "👩‍👩‍👧", "%3Cscript%3E", "..%2f..%2fetc",
		"../../ui/logout", "//evil.example", "?namespace=x&y=<z>", "#main", "; touch pwned", "$(touch pwned)", "`touch pwned`",
		"' ; touch pwned ; '", "\" ; touch pwned ; \"", "| touch pwned", "&& touch pwned", "> pwned", "-x --data-dir=/", "*", "~root",
		"=1+1", "@SUM(1)", "+1", "\\u003cscript\\u003e", "__proto__", "<svg><script>pwned=1</script></svg>",
	}
	for i := range texts {
		texts[i] = fmt.Sprintf("%s h%02d", texts[i], i)
	}
	return texts
}

// unprintable are texts that no name may hold.
func unprintable() []string {
	texts := []string{
		"\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\link", "a\x00b", "a\rb", "a\bb", "\x9b31m", "a\u0085b",
		"\xff\xfe<b>", "\xc0\xbcscript\xc0\xbe", "\x7f", "a\x0bb\x0cc",
	}
	for i := range texts {
		texts[i] = fmt.Sprintf("%s u%02d", texts[i], i)
	}
	return texts
}

// readable is what of a text a page has to show: all but characters that cannot be seen.
func readable(text string) (parts []string) {
	return strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || r == '\ufffd'
	})
}

// harm returns what a page must not have, whatever the texts are that it shows.
const harm = `(() => {
	const bad = [], 
		no = /^(script|img|iframe|object|embed|style|base|link|meta|math|video|audio|frame|marquee|foreignobject)$/;
	const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
	if (globalThis.pwned !== undefined) bad.push("a text has been run");
	for (const e of document.body.querySelectorAll("*")) {
		if (no.test(e.localName)) bad.push("an element: " + e.outerHTML.slice(0, 300));
		if (/^(bdi|pre|time|option|title)$/.test(e.localName) && e.querySelector(":not(mark, span, time, bdi)"))
			bad.push("markup in a text: " + e.outerHTML.slice(0, 300));
		for (const a of e.attributes) {
			if (/^on/.test(a.name) || /^(srcdoc|style)$/.test(a.name) ||
				/^(href|src|action|formaction)$/.test(a.name) && new URL(a.value, location).origin !== location.origin)
				bad.push("an attribute: " + a.name + "=" + a.value.slice(0, 300));
			if (unseen.test(a.value)) bad.push("a control character in an attribute: " + JSON.stringify(a.value.slice(0, 300)));
		}
	}
	const at = document.documentElement.textContent.search(unseen);
	if (at >= 0) bad.push("a control character: " + JSON.stringify(document.documentElement.textContent.substr(at - 20, 40)));
	return bad;
})()`

// harmless fails the test if the page has anything but text of a text.
func (b *tab) harmless() {
	b.t.Helper()
	for _, bad := range evaluate[[]string](b, harm) {
		b.t.Errorf("%s: %s", b.where(), bad)
	}
}

// reads fails the test unless the page shows a text.
func (b *tab) reads(text string) {
	b.t.Helper()
	shown := evaluate[string](b, "document.body.textContent")
	for _, part := range readable(text) {
		if !strings.Contains(shown, part) {
			b.t.Errorf("%s does not show %q of %q", b.where(), part, text)
			return
		}
	}
}

// TestHostileAgent: an agent reports texts that want to be more than text in every field that it has. On no page they are
// more than text that can be read, and a copied command does no more than it says.
func TestHostileAgent(t *testing.T) {
	t.Parallel()
	f := harness.NewFleet(t, binaries.drover, binaries.agent)
	l := newLiar(f, "10.66.0.1")
	texts, all := hostile(), append(hostile(), unprintable()...)
	hello := wire.Hello{
		Cloud: l.enrolment.Cloud, IP: l.enrolment.IP, Build: texts[0], BootID: texts[1], Started: time.Now().Unix(),
		Name: texts[2], Policy: texts[3], Wanted: texts[4], Upgrade: texts[5],
		Host: wire.Host{
			OS: texts[6], Arch: texts[7], Distribution: texts[8], Version: texts[9], Kernel: texts[10], CPUs: 1,
			Labels: map[string]string{"env": "prod", texts[11]: texts[12]}, Facts: map[string]string{"kind": texts[13], texts[14]: "x"},
			Disks: []wire.Mount{{Path: texts[15], Size: 1}},
		},
	}
	if ack := l.tell(wire.Report{Hello: &hello}); ack.Error != "" {
		t.Fatal(ack.Error)
	}
	var r wire.Report
	ids := make([]process.ID, len(all))
	for i, text := range all {
		ids[i] = process.ID{Namespace: "evil", Name: text}
		if i >= len(texts) {
			ids[i].Name = fmt.Sprint("unprintable ", i)
		}
		now := time.Now()
		cause := process.Cause{ID: process.CauseExitStatus, Text: text, Evidence: []string{text}, Since: now.UnixMilli()}
		r.Observed = append(r.Observed, wire.Observation{Process: ids[i], Status: process.Status{
			Known: true, Hosted: true, Revision: uint64(i + 1), State: process.StateGivenUp, Message: text,
			Cause:   cause,
			Further: []process.Cause{cause}, ProcName: text, ReportedAt: now.Unix(),
			Health:   &process.Answer{Text: text, At: now.UnixMilli()},
			Version:  &process.Answer{OK: true, Text: text, At: now.UnixMilli()},
			LastExit: &process.Exit{Known: true, Code: 3, At: now.UnixMilli()},
			Config:   []process.Drift{{Path: text}},
			Instance: process.Instance{PID: -1, Cmdline: text, Stat: text},
		}})
		r.Events = append(r.Events, l.event(ids[i], process.EventExited, text))
	}
	if ack := l.tell(r); ack.Error != "" {
		t.Fatal(ack.Error)
	}
	b := open(t, f.URL, browser{})
	b.signInBy(strings.TrimSpace(f.CLI("login")))
	for _, path := range []string{
		"/ui/", "/ui/processes", "/ui/processes?namespace=evil&state=given-up", "/ui/hosts", "/ui/tasks", "/ui/rollouts", "/ui/events",
		"/ui/processes?namespace=" + url.QueryEscape(texts[1]), "/ui/events?kind=" + url.QueryEscape(texts[0]),
		"/ui/hosts?hosts=" + url.QueryEscape(texts[5]),
	} {
		b.allow(`status of 4(00|22) `) // a filter that is none
		b.load(path)
		b.harmless()
	}
	b.accessible()
	b.load("/ui/hosts")
	b.reads(texts[0])
	for i, id := range ids {
		if i%4 != 0 && !judge.Long() {
			continue // the lists have all texts
		}
		path := "/ui/processes/" + url.PathEscape(id.Namespace) + "/" + url.PathEscape(id.Name)
		b.load(path + "/at/0:10.66.0.1")
		b.reads(id.Name)
		b.reads(all[i])
		b.harmless()
		b.commandIs(t, "why", id.Namespace+"/"+id.Name)
		if i%10 == 0 {
			b.load(path)
			b.reads(all[i])
			b.harmless()
		}
	}
}

// commandIs fails the test unless the command of a page, run by a shell, is one command of drover with this argument.
func (b *tab) commandIs(t *testing.T, verb, argument string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "drover")
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := harness.WriteProgram(program, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >>"+dir+"/arguments\n")); err != nil {
		t.Fatal(err)
	}
	command := evaluate[string](b, "document.querySelector('.command code').textContent")
	r := harness.Finish(t, "", []string{"PATH=" + filepath.Dir(program) + ":/usr/bin:/bin", "HOME=" + dir}, "/bin/sh", "-c",
		"cd "+dir+" && "+command)
	said, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v %d %s", command, err, r.Code, r.Errors)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%s has left %v", command, entries)
	}
	got := strings.Split(string(said), "\n")
	if got[0] != verb || len(readable(argument)) > 0 && strings.Join(readable(got[1]), " ") != strings.Join(readable(argument), " ") {
		t.Errorf("%s has the arguments %q, want %s %q", command, got, verb, argument)
	}
}

// TestHostileOutput: the output of a process is text, whatever it is: a line of a mebibyte, control characters, no UTF-8.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	texts := append(hostile(), unprintable()...)
	p.Write("long", strings.Repeat("x", 1<<20)+"<b>end</b>\n")
	p.Write("texts", strings.Join(texts, "\n")+"\n")
	p.Write("words", "\x1b[31m<img src=x onerror=pwned=1> last words\n")
	p.ApplyFailing(`
namespace: shop
defaults: {hosts: ["0:127.0.0.1"], user: root, directory: DIR, ready: {alive: 0s}}
processes:
  api: {run: "cat long texts; sleep 1000", version_command: "cat words"}
  bad: {run: "cat words; sleep 0.3; exit 3", restart: {give_up_after: 1, delay: 1s}}
`)
	harness.Eventually(t, "shop/bad to be given up", func() bool { return p.State("bad") == "given-up" })
	b := open(t, p.S.URL, browser{})
	b.signIn(p)
	b.goTo("/ui/processes/shop/api/at/0:127.0.0.1")
	b.await("the log", "document.querySelector('pre')?.textContent.includes('u11')")
	for _, text := range texts {
		b.reads(text)
	}
	b.harmless()
	if n := evaluate[int](b, "document.documentElement.outerHTML.length"); n > 2<<20 {
		t.Errorf("the page has %d characters", n)
	}
	b.goTo("/ui/processes/shop/bad/at/0:127.0.0.1")
	b.reads("<img src=x onerror=pwned=1> last words")
	b.harmless()
}
