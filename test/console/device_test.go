package console_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"drover/internal/test/harness"
)

// commandLine is a drover on another machine: it knows no socket, and has a home of its own.
type commandLine struct {
	*browser
	home string
}

// run runs a command to its end.
func (c *commandLine) run(code int, args ...string) harness.Finished {
	c.T.Helper()
	a := harness.Finish(c.T, "", harness.Environment(c.home), binaries.drover, args...)
	if a.Code != code {
		c.T.Fatalf("drover %q: exit code %d, want %d\n%s%s", args, a.Code, code, a.Out, a.Errors)
	}
	return a
}

// login begins a sign-in. It returns the letters, and a function that awaits the end.
func (c *commandLine) login(args ...string) (letters string, end func() (code int, text string)) {
	c.T.Helper()
	cmd := exec.Command(binaries.drover, append([]string{"login", c.S.URL}, args...)...)
	cmd.Env = harness.Environment(c.home)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { _ = cmd.Process.Kill() })
	var said strings.Builder
	in := bufio.NewReader(stderr)
	code := regexp.MustCompile(`(?m)^ +([A-Z]{4}-[A-Z]{4})$`)
	for letters == "" {
		line, err := in.ReadString('\n')
		if said.WriteString(line); err != nil {
			c.T.Fatalf("it shows no letters: %s", said.String())
		}
		if m := code.FindStringSubmatch(said.String()); m != nil {
			letters = m[1]
		}
	}
	return letters, func() (int, string) {
		rest, _ := io.ReadAll(in) // it ends with the program
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), said.String() + string(rest)
	}
}

func (c *commandLine) credentials() string {
	return filepath.Join(c.home, ".config", "drover", "credentials")
}

// confirm types letters, and answers.
func (c *commandLine) confirm(letters, answer string) page {
	c.T.Helper()
	p := c.wants(c.post("/ui/device", url.Values{"code": {letters}}), 200, "It says that it is")
	return c.post("/ui/device/answer", url.Values{"code": {letters}, "shown": {p.input(c.T, "shown")}, "answer": {answer}})
}

func newCommandLine(t *testing.T) *commandLine {
	t.Helper()
	c := &commandLine{newBrowser(t, harness.NewPlace(t, binaries.drover)), t.TempDir()}
	c.CLI("user", "create", "anna")
	c.CLI("user", "grant", "anna", "viewer on *")
	c.signIn("anna")
	return c
}

// TestLoginOfACommandLine: a person confirms the letters in the browser; then commands have the rights of the person,
// until the person signs out.
func TestLoginOfACommandLine(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	if a := c.run(6, "ps"); !strings.Contains(a.Errors, "drover login URL") {
		t.Errorf("without a sign-in: %s", a.Errors)
	}
	letters, end := c.login("--context", "here")
	c.wants(c.get("/ui/device"), 200, "Type the eight letters")
	c.wants(c.confirm(strings.ToLower(strings.ReplaceAll(letters, "-", " ")), "confirm"), 200, "is signed in")
	if code, text := end(); code != 0 || !strings.Contains(text, "signed in as anna at "+c.S.URL) {
		t.Fatalf("the command line: %d %s", code, text)
	}
	info, err := os.Stat(c.credentials())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the credentials: %v, %v", info, err)
	}
	c.run(0, "agents")
	c.run(5, "user", "list")
	c.run(0, "agents", "--context", "here")
	c.run(0, "agents", "--server", c.S.URL)
	c.run(4, "agents", "--context", "there")
	if list := c.run(0, "context", "list").Out; !strings.Contains(list, "here") || !strings.Contains(list, "anna") ||
		!strings.Contains(list, "*") {
		t.Errorf("contexts: %s", list)
	}
	var rows []map[string]any
	text := c.run(0, "context", "list", "-o", "json").Out
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 1 || strings.Contains(text, "drovertok") {
		t.Errorf("contexts: %v %s", err, text)
	}
	if tokens := c.CLI("user", "tokens", "anna").Out; !strings.Contains(tokens, "cli") {
		t.Errorf("tokens of anna: %s", tokens)
	}
	for _, action := range []string{"console.device", "users.list"} {
		if audit := c.CLI("audit", "--user", "anna", "--action", action).Out; !strings.Contains(audit, "127.0.0.1") {
			t.Errorf("audit of %s: %s", action, audit)
		}
	}
	kept, err := os.ReadFile(c.credentials())
	if err != nil {
		t.Fatal(err)
	}
	c.run(0, "logout")
	if a := c.run(5, "agents"); !strings.Contains(a.Errors, "drover login --context here") {
		t.Errorf("after the sign-out: %s", a.Errors)
	}
	if err := os.WriteFile(c.credentials(), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(5, "agents") // the server has forgotten the token
	if err := os.Chmod(c.credentials(), 0o644); err != nil {
		t.Fatal(err)
	}
	if a := c.run(1, "agents"); !strings.Contains(a.Errors, "expected 0600") {
		t.Errorf("credentials that others can read: %s", a.Errors)
	}
	if err := os.Chmod(c.credentials(), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(4, "context", "use", "there")
	c.run(0, "context", "remove", "here")
	c.run(6, "agents")
}

// TestLettersOfACommandLine: letters count once, for what the page has shown, and guesses are limited. The answer of
// another page changes nothing.
func TestLettersOfACommandLine(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	letters, end := c.login()
	shown := c.post("/ui/device", url.Values{"code": {letters}}).input(c.T, "shown")
	other, otherEnd := c.login("--context", "other")
	answer := url.Values{"code": {other}, "shown": {shown}, "answer": {"confirm"}}
	if p := c.post("/ui/device/answer", answer); p.status != 409 {
		t.Errorf("letters of another command line: %d", p.status)
	}
	c.language = "zh-CN"
	c.wants(c.post("/ui/device", url.Values{"code": {letters}}), 200, "命令行自称", "以 anna 身份登录")
	c.language = ""
	c.origin = "https://evil.example"
	if p := c.post("/ui/device/answer", url.Values{"code": {letters}, "shown": {shown}}); p.status != 403 {
		t.Errorf("an answer of another page: %d", p.status)
	}
	c.origin = ""
	stranger := newBrowser(t, c.Place)
	stranger.wants(stranger.post("/ui/device", url.Values{"code": {letters}}), 200, "Sign in")
	c.wants(c.confirm(letters, "reject"), 200, "is not signed in")
	if code, text := end(); code != 5 || !strings.Contains(text, "rejected") {
		t.Errorf("a command line that is rejected: %d %s", code, text)
	}
	c.wants(c.confirm(other, "confirm"), 200, "is signed in")
	if code, text := otherEnd(); code != 0 {
		t.Errorf("the other command line: %d %s", code, text)
	}
	c.wants(c.post("/ui/device", url.Values{"code": {other}}), 404, "No command line waits")
	begun := time.Now()
	for n := 0; ; n++ {
		p := c.post("/ui/device", url.Values{"code": {"BBBBBBBB"}})
		if p.status == 429 {
			break
		}
		if n > 40 && time.Since(begun) < 30*time.Second {
			t.Fatalf("%d guesses in %s", n, time.Since(begun))
		}
	}
	if audit := c.CLI("audit", "--action", "console.device", "--denied", "-o", "json").Out; !strings.Contains(audit,
		"no command line waits") || !strings.Contains(audit, "another command line") {
		t.Errorf("audit: %s", audit)
	}
}

// TestLoginNeedsTLS: the token would be readable on its way.
func TestLoginNeedsTLS(t *testing.T) {
	t.Parallel()
	c := &commandLine{home: t.TempDir(), browser: &browser{Place: &harness.Place{T: t}}}
	if a := c.run(2, "login", "http://drover.example.com:7350"); !strings.Contains(a.Errors, "expected https") {
		t.Errorf("over http: %s", a.Errors)
	}
	c.run(2, "login", "https://")
	c.run(2, "login", "anna", "--ca", "x")
	c.run(4, "logout")
}

// TestDroppedToken: a token that is dropped ends the sessions and the command lines that were signed in with it, also those
// of other users, and nothing else.
func TestDroppedToken(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	c.CLI("user", "create", "boss", "--admin")
	made := func(user string) (token, id string) {
		t.Helper()
		token = strings.TrimSpace(c.CLI("user", "token", user).Out)
		for line := range strings.Lines(c.CLI("user", "tokens", user).Out) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "token" {
				id = fields[0]
			}
		}
		return token, id
	}
	signIn := func(token string, user ...string) *browser {
		t.Helper()
		a := harness.Finish(t, "", harness.Environment(c.home, "DROVER_USER_TOKEN="+token), binaries.drover,
			append([]string{"login", "--server", c.S.URL}, user...)...)
		_, code, found := strings.Cut(strings.TrimSpace(a.Out), "#")
		if a.Code != 0 || !found {
			t.Fatalf("a link by a token: %d %s%s", a.Code, a.Out, a.Errors)
		}
		b := newBrowser(t, c.Place)
		b.post("/ui/login", url.Values{"code": {code}})
		return b
	}
	boss, id := made("boss")
	anna, _ := made("anna")
	leaked, given, other := signIn(boss), signIn(boss, "anna"), signIn(anna)
	own := c.browser
	c.browser = given
	letters, end := c.login()
	c.wants(c.confirm(letters, "confirm"), 200, "is signed in")
	if code, text := end(); code != 0 {
		t.Fatalf("the command line: %d %s", code, text)
	}
	c.run(0, "agents")
	if a := own.CLI("user", "drop", "boss", id); a.Code != 0 {
		t.Fatalf("drop: %d %s", a.Code, a.Errors)
	}
	for _, b := range []*browser{leaked, given} {
		b.wants(b.get("/ui/"), 200, `id="login"`)
	}
	c.run(5, "agents")
	for _, b := range []*browser{own, other} {
		b.wants(b.get("/ui/"), 200, "anna", "Overview")
	}
}

// TestOperatorsBringNoSpec: an operator operates what others have set up. A spec of their own, also for a start, needs the
// right to update; without it they see no values of environments either.
func TestOperatorsBringNoSpec(t *testing.T) {
	t.Parallel()
	c := newCommandLine(t)
	c.CLI("user", "create", "bob")
	c.CLI("user", "grant", "bob", "operator on shop")
	token := strings.TrimSpace(c.CLI("user", "token", "bob").Out)
	file := func(command string) string {
		path := filepath.Join(t.TempDir(), "shop.yaml")
		text := "namespace: shop\nprocesses:\n  api: {run: " + command + ", directory: " + t.TempDir() +
			", ready: {alive: 0s}, environment: {MODE: secret}, hosts: ['0:127.0.0.1']}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bob := func(code int, args ...string) string {
		t.Helper()
		a := harness.Finish(t, "", harness.Environment(c.home, "DROVER_USER_TOKEN="+token), binaries.drover,
			append(args, "--server", c.S.URL)...)
		if a.Code != code {
			t.Fatalf("bob's drover %q: exit code %d: %s%s", args, a.Code, a.Out, a.Errors)
		}
		return a.Out + a.Errors
	}
	before, after := file("sleep 86401"), file("sleep 86402")
	if said := bob(5, "apply", "-f", before, "--yes"); !strings.Contains(said, "update shop/api") {
		t.Errorf("a new process: %s", said)
	}
	if a := c.CLI("apply", "-f", before, "--yes"); a.Code != 0 {
		t.Fatal(a.Errors)
	}
	if said := bob(5, "apply", "-f", after, "--yes"); !strings.Contains(said, "update shop/api") {
		t.Errorf("a changed process: %s", said)
	}
	if said := bob(0, "get", "shop/api"); !strings.Contains(said, "***") || strings.Contains(said, "secret") {
		t.Errorf("the file is %s", said)
	}
	bob(0, "restart", "shop/api", "--yes")
	c.CLI("user", "grant", "bob", "update on shop")
	bob(0, "apply", "-f", after, "--yes")
	if said := bob(0, "get", "shop/api"); !strings.Contains(said, "secret") {
		t.Errorf("the file is %s", said)
	}
}
