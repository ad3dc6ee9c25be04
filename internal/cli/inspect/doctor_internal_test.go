package inspect

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	v1 "drover/api/v1"
	"drover/client"
	"drover/internal/cli/remote"
	"drover/internal/cli/term"
	"drover/internal/command"
)

// TestState: each of what a server says of itself has its level, and what is wrong has a remedy.
func TestState(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	good := v1.Server{
		Version: command.Build(), Now: now, Disk: &v1.Space{Free: 50 << 30, Size: 100 << 30},
		Certificates: []v1.Certificate{{Name: "ca", EndsAt: now.AddDate(1, 0, 0)}},
	}
	for name, c := range map[string]struct {
		change func(*v1.Server)
		ahead  time.Duration
		want   string
	}{
		"all is well":           {func(*v1.Server) {}, time.Second, ""},
		"not ready":             {func(s *v1.Server) { s.Problem = "no fabric" }, 0, "problem readiness"},
		"a note":                {func(s *v1.Server) { s.Notes = []string{"n"} }, 0, "warning readiness"},
		"another version":       {func(s *v1.Server) { s.Version = "0.1" }, 0, "warning version"},
		"a slow clock":          {func(*v1.Server) {}, -2 * time.Second, "warning clock"},
		"a wrong clock":         {func(*v1.Server) {}, time.Minute, "problem clock"},
		"an old certificate":    {func(s *v1.Server) { s.Certificates[0].EndsAt = now.AddDate(0, 0, 13) }, 0, "warning certificate"},
		"a certificate too old": {func(s *v1.Server) { s.Certificates[0].EndsAt = now }, 0, "problem certificate"},
		"little space":          {func(s *v1.Server) { s.Disk.Free = 9 << 30 }, 0, "warning server's disk"},
		"no space":              {func(s *v1.Server) { s.Disk.Free = 1 << 30 }, 0, "problem server's disk"},
	} {
		s := good
		s.Certificates = slices.Clone(good.Certificates)
		disk := *good.Disk
		s.Disk = &disk
		c.change(&s)
		var f findings
		f.state(&s, c.ahead)
		var wrong []string
		for _, one := range f {
			if one.Level == levelOK {
				continue
			}
			wrong = append(wrong, one.Level+" "+one.Check)
			if one.Remedy == "" && one.Message != "n" {
				t.Errorf("%s: no remedy for %s", name, one.Message)
			}
		}
		if got := strings.Join(wrong, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUnknownHosts: hosts that the database does not know are one warning.
func TestUnknownHosts(t *testing.T) {
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var f findings
	f.unknown(nil)
	f.unknown([]v1.UnknownHost{
		{Key: "UA", Address: "10.7.0.8", FirstSeenAt: since}, {Key: "UB", Cloud: 3, FirstSeenAt: since},
	})
	if len(f) != 1 || f[0].Level != levelWarning || f[0].Message != "the database does not know hosts that report: "+
		"10.7.0.8 (area 0, key UA, since "+term.Stamp(&since)+"), ? (area 3, key UB, since "+term.Stamp(&since)+")" {
		t.Errorf("%+v", f)
	}
}

func TestSome(t *testing.T) {
	var list []string
	for n := range 7 {
		list = append(list, fmt.Sprint(n))
	}
	if got := some(list); got != "0, 1, 2, 3, 4 and 2 more" {
		t.Errorf("got %q", got)
	}
	if got := some(list[:5]); got != "0, 1, 2, 3, 4" {
		t.Errorf("got %q", got)
	}
}

// TestNoServerChosen: on a host that has only an agent, nobody needs to have chosen a server.
func TestNoServerChosen(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("DROVER_SERVER", "")
	agent, both := t.TempDir(), t.TempDir()
	for _, dir := range []string{agent + "/agent", both + "/agent", both + "/server"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dataDir, agentDir string
		only              bool
		level             string
	}{
		{agent, "", true, levelWarning},
		{t.TempDir(), agent, true, levelWarning},
		{both, "", false, levelProblem},
		{both, agent, false, levelProblem},
	} {
		only := onlyAgent(c.dataDir, c.agentDir)
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		var s remote.Session
		var f findings
		_, reached, err := f.server(cmd, &s, only)
		if only != c.only || err != nil || reached != c.only || len(f) != 1 || f[0].Level != c.level {
			t.Errorf("%+v: only an agent: %t; reached: %t, %v, %+v", c, only, reached, err, f)
		}
	}
}

// TestOneDisk: one file system is one finding, also if the server tells of it or an agent uses it, too.
func TestOneDisk(t *testing.T) {
	dir, agent := t.TempDir(), t.TempDir()
	for _, d := range []string{dir + "/server", dir + "/agent", agent + "/agent"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	socket := dir + "/drover.sock"
	for _, c := range []struct {
		agent, address string
		told           bool
		want           string
	}{
		{"", socket, true, serverDisk},
		{agent, socket, true, serverDisk},
		{agent, socket, false, "disk of " + dir + "/server"},
		{agent, "127.0.0.1:1", true, serverDisk + ", disk of " + dir + "/server"},
	} {
		var f findings
		if c.told {
			f.ok(serverDisk, "")
		}
		f.machine(t.Context(), dir, c.agent, c.address)
		var disks []string
		for _, one := range f {
			if strings.Contains(one.Check, "disk") {
				disks = append(disks, one.Check)
			}
		}
		if got := strings.Join(disks, ", "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestStoppedRollouts: doctor warns of the rollouts that wait for a person, with the command that lets each go on.
// TestLackingPackages: after a restore the packages have no program.
func TestLackingPackages(t *testing.T) {
	text, status := "", http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, AppCode: "code", AppSecret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	const lacking = "hosts cannot upgrade to packages without their whole program: 1.4.0/amd64"
	for _, tt := range []struct {
		text   string
		status int
		want   findings
	}{
		{`{"items":[]}`, 200, nil},
		{`{"items":[{"version":"1.4.0","arch":"amd64"}]}`, 200, findings{
			{"packages", levelOK, "every package has its whole program", ""},
		}},
		{`{"items":[{"version":"1.4.0","arch":"amd64","missing":[0]},{"version":"1.5.0","arch":"amd64"}]}`, 200, findings{
			{"packages", levelWarning, lacking, "drover packages add FILE, or drover packages remove VERSION ARCH"},
		}},
		{`{"status":403,"detail":"no"}`, 403, nil},
	} {
		text, status = tt.text, tt.status
		var f findings
		if f.packages(t.Context(), &remote.Session{}, c); !slices.Equal(f, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.text, f, tt.want)
		}
	}
}

func TestStoppedRollouts(t *testing.T) {
	state := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `{"items":[]}`
		if r.URL.Query().Get("state") == state {
			text = `{"items":[{"id":"ro-1","processes":["shop/web"],"state":"` + state + `","reason":"bad"}]}`
		}
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, AppCode: "code", AppSecret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	for found, want := range map[string]finding{
		"":       {"rollouts", levelOK, "no rollout is paused or held", ""},
		"paused": {"rollouts", levelWarning, "paused rollout ro-1 over shop/web: bad", "drover rollout status ro-1"},
		"held":   {"rollouts", levelWarning, "held rollout ro-1 over shop/web: bad", "drover rollout status ro-1"},
	} {
		state = cmp.Or(found, "none")
		var f findings
		if f.rollouts(t.Context(), &remote.Session{}, c); len(f) != 1 || f[0] != want {
			t.Errorf("%q: %+v, want %+v", found, f, want)
		}
	}
}
