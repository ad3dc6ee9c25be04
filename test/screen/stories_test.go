package screen_test

import (
	"fmt"
	"strings"
	"testing"

	"drover/internal/words"
)

// TestStories: what a person does on the screen, by keys alone, in both languages and at two sizes of a terminal.
func TestStories(t *testing.T) {
	for _, c := range []struct {
		locale        string
		lang          words.Lang
		width, height int
	}{
		{"C.UTF-8", words.English, 80, 24},
		{"zh_CN.UTF-8", words.Chinese, 120, 40},
	} {
		t.Run(fmt.Sprintf("%s %dx%d", c.lang.Tag(), c.width, c.height), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			s := openFor(t, f.ServerDir(), c.width, c.height, "LANG="+c.locale)
			s.lang = c.lang
			s.types("drover ui")
			s.keys("Enter")
			somethingIsWrong(s, f)
			restartCarefully(s, f)
			badRelease(s, f)
			whoStoppedIt(s, f)
			addHosts(s, f)
			rightsOfAColleague(s, f)
			s.keys("C-c")
			s.sees("ready>")
		})
	}
}

// in is a text in the language of the terminal.
func (s *terminal) in(t words.Text, args ...any) string { return t.In(s.lang, args...) }

// goes types a place after ':'.
func (s *terminal) goes(to string) {
	s.t.Helper()
	s.keys(":")
	s.sees(s.in(words.Screen.Jump) + " :_")
	s.types(to)
	s.keys("Enter")
}

// filters types a filter in place of the former one.
func (s *terminal) filters(by string) {
	s.t.Helper()
	s.keys("/")
	s.sees(s.in(words.Screen.Filter) + " /")
	s.keys("C-u")
	s.types(by)
	s.keys("Enter")
	s.sees(by)
}

// confirms goes from Cancel to the operation of the dialog, and takes it.
func (s *terminal) confirms(op words.Text) {
	s.t.Helper()
	s.sees("[ " + s.in(words.Act.Cancel) + " ]")
	s.keys("Tab")
	s.sees("[ " + s.in(op) + " ]")
	s.keys("Enter")
}

// somethingIsWrong: from the list to what is wrong, its cause, what to do, the log, and the operation that mends it.
func somethingIsWrong(s *terminal, f *fleet) {
	s.t.Helper()
	f.release(false)
	f.try("restart", "shop/api", "--yes")
	s.sees("shop/api", "<^z>")
	s.keys("C-z")
	s.sees(s.in(words.Screen.Wrong), "▸ shop/api")
	s.filters("shop/api --hosts " + f.hosts[0])
	// Before it flaps, it is not wrong while it runs, and the list is empty for that moment.
	s.sees("▸ shop/api  "+f.hosts[0], words.ClassOf("flapping").Mark()+" "+s.in(words.State("flapping")))
	s.keys("w")
	s.sees(s.in(words.Head.Remedy), "cannot reach the database")
	s.keys("l")
	s.sees(s.in(words.Screen.LogOf, "process", "shop/api", "host", f.hosts[0]), "cannot reach the database")
	s.keys("l")
	f.release(true)
	s.keys("r")
	s.sees(s.in(words.Act.AskOne, "op", s.in(words.Act.Restart), "process", "shop/api", "host", f.hosts[0]))
	s.confirms(words.Act.Restart)
	s.sees(strings.ToLower(s.in(words.Act.Restart)), "op-")
	f.CLI("restart", "shop/api", "--yes")
	s.keys("q")
	s.sees(s.in(words.Page.NothingMatches))
}

// restartCarefully: all that match are restarted in batches, which the dialog offers.
func restartCarefully(s *terminal, f *fleet) {
	s.t.Helper()
	s.goes("shop/api")
	s.sees(s.in(words.Screen.Matching, "n", 3), f.hosts[2])
	s.keys("*")
	s.sees(s.in(words.Screen.Marked, "n", 3))
	s.keys("r")
	s.sees(s.in(words.Act.Ask, "op", s.in(words.Act.Restart), "n", 3, "hosts", 3), s.in(words.Act.AtOnce, "hosts", 3), "<b>")
	s.keys("b")
	s.sees(s.in(words.Screen.Asked, "what", s.in(words.Screen.Batches)) + "--batch 10%")
	s.keys("C-u")
	s.types("--batch 1 --bake never")
	s.keys("Enter")
	s.sees("(" + s.in(words.Screen.BadValue, "flag", "--bake", "value", "never") + ")")
	s.keys("C-u")
	s.types("--batch 1 --bake 10s")
	s.keys("Enter")
	s.sees(s.in(words.Act.InBatches) + "  --batch 1 --bake 10s")
	s.confirms(words.Act.Restart)
	s.sees("ro-", "shop/api", "<p>")
	s.keys("p")
	s.confirms(words.Act.Pause)
	s.sees(words.ClassOf("paused").Mark() + " " + s.in(words.State("paused")))
	s.keys("r")
	s.confirms(words.Act.Resume)
	s.sees("3/3", words.ClassOf("done").Mark()+" "+s.in(words.State("done")))
}

// badRelease: an applied file fails on its one host, says why, and is undone.
func badRelease(s *terminal, f *fleet) {
	s.t.Helper()
	f.CLI("apply", "-f", f.site("sleep 100000", ""), "--yes")
	f.try("apply", "-f", f.site("sh -c 'echo no database; exit 3'", "    rollout: {batch: 1, bake: 1s}\n"), "--yes")
	s.goes("rollouts")
	s.sees("web/site", words.ClassOf("done-with-failures").Mark()+" "+s.in(words.State("done-with-failures")))
	s.keys("Enter")
	s.sees(s.in(words.Head.Failures), f.hosts[0], "<u>")
	s.keys("w")
	s.sees(s.in(words.Screen.Wrong), "web/site")
	s.keys("q")
	s.sees("<u>")
	s.keys("u")
	s.sees("web/site", s.in(words.Act.UndoNote)[:12])
	s.confirms(words.Act.Undo)
	s.sees("1/1", words.ClassOf("done").Mark()+" "+s.in(words.State("done")))
}

// whoStoppedIt: the events of a process name the person and the time, and the audit log the call.
func whoStoppedIt(s *terminal, f *fleet) {
	s.t.Helper()
	f.CLI("user", "create", "anna")
	f.CLI("user", "grant", "anna", "operator on shop")
	f.as("anna", "stop", "shop/api", "--hosts", f.hosts[1], "--yes")
	s.goes("ps")
	s.filters("shop/api --state stopped")
	s.sees("▸ shop/api", f.hosts[1])
	s.keys("e")
	s.sees(s.in(words.Page.Events), "shop/api", "anna")
	s.filters("shop/api --hosts " + f.hosts[1] + " --kind stopped --since 16h")
	s.until("the event alone", func(now string) bool { // the filter says "stopped", too, and the rows come later
		rows := 0
		for line := range strings.Lines(now) {
			if strings.Contains(line, "▸") && strings.Contains(line, "anna") {
				rows++
			} else if strings.Contains(line, "uid:") {
				return false // another event
			}
		}
		return rows == 1
	})
	s.keys("Enter")
	s.sees(s.in(words.Head.User), "anna", " UTC")
	s.goes("audit")
	s.filters("--user anna")
	s.sees("anna", strings.ToLower(s.in(words.Act.Stop)), "shop/api")
}

// addHosts: a token for ten hosts, and one of them joins with the lines of the screen.
func addHosts(s *terminal, f *fleet) {
	s.t.Helper()
	s.goes("hosts")
	s.sees(f.hosts[2], "<+>")
	s.keys("+")
	s.sees(s.in(words.Screen.Asked, "what", s.in(words.Admin.AddHosts)) + "--uses 10")
	s.types(" --labels rack=4")
	s.keys("Enter")
	s.sees(s.in(words.Admin.TokenMade, "n", 10), "drover-agent join", "systemctl enable --now drover-agent")
	s.keys("c")
	s.sees(s.in(words.Screen.Copied, "text", ""))
	lines := s.tmux("show-buffer")
	_, token, _ := strings.Cut(lines, "echo ")
	token, _, found := strings.Cut(token, " | drover-agent join ")
	if !found {
		s.t.Fatalf("copied %q", lines)
	}
	if code, errs := f.Join("host3", "127.0.0.9", strings.Trim(token, "'")); code != 0 {
		s.t.Fatalf("the host does not join: %d %s", code, errs)
	}
	f.StartAgent("host3", "--facts-dir", "/nonexistent")
	f.Online("0:127.0.0.9")
	s.keys("q")
	now := s.sees("0:127.0.0.9")
	if strings.Contains(now, token) {
		s.t.Error("the list shows the token")
	}
	s.keys("]")
	s.sees("0:127.0.0.9") // nothing shows the token again
}

// rightsOfAColleague: a new person gets a right on one namespace, and a link.
func rightsOfAColleague(s *terminal, f *fleet) {
	s.t.Helper()
	s.goes("people")
	s.sees("anna", "operator on shop")
	s.keys("+")
	s.sees(s.in(words.Screen.Asked, "what", s.in(words.Screen.NewRight)) + "_")
	s.types("bea viewer")
	s.keys("Enter")
	s.sees(s.in(words.Screen.NoRight))
	s.types(" on web")
	s.keys("Enter")
	s.sees("bea", "viewer on web", "<i>")
	s.keys("i")
	s.sees(s.in(words.Admin.LinkFor, "user", "bea"), "/ui/login#")
	s.keys("q", "q")
	s.sees("bea", "anna")
	if list := f.CLI("user", "list"); !strings.Contains(list, "viewer on web") {
		s.t.Errorf("bea has no right:\n%s", list)
	}
}
