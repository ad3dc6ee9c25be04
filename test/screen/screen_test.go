package screen_test

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"drover/internal/test/harness"
)

// shop is a file with some processes that print a line and stay. No other test has the same ones.
func shop(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("namespace: shop\ndefaults:\n  hosts: [\"" + harness.Agent + "\"]\n  user: root\nprocesses:\n")
	for i := range n {
		fmt.Fprintf(&b, "  web%02d:\n    run: /bin/sh -c \"echo here is web%02d in %s; exec sleep 10000\"\n", i+1, i+1,
			path.Base(t.Name()))
	}
	return b.String()
}

// row is the line of the screen that begins with a process.
func row(screen, name string) string {
	for l := range strings.Lines(screen) {
		if words := strings.Fields(strings.TrimPrefix(l, "▸")); len(words) > 0 && strings.TrimPrefix(words[0], "*") == name {
			return l
		}
	}
	return ""
}

// TestScreen: jump, filter, mark three, restart, log, why, and the end, at two sizes of a terminal.
func TestScreen(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlace(t, binaries.drover)
			p.Apply(shop(t, 5))
			s := open(t, p, size[0], size[1])
			s.types("drover ui")
			s.keys("Enter")
			s.sees("PROCESS", "shop/web01", "shop/web05", "● running", "● live", "processes: 5")
			for l := range strings.Lines(s.text()) {
				if strings.Contains(l, "shop/web") && !strings.Contains(l, harness.Agent) {
					t.Errorf("a row is broken: %q", l)
				}
			}

			s.keys(":")
			s.types("hosts")
			s.keys("Enter")
			s.sees("Hosts", "● online", harness.Agent)
			s.keys(":")
			s.types("shop/web0[")
			s.keys("C-u")
			s.types("ps")
			s.keys("Enter", "/")
			s.types("shop/web0* --state running")
			s.keys("Enter")
			s.sees("shop/web0* --state running", "shop/web03")

			before := p.PID("web02")
			s.keys("Space", "Space", "Space")
			s.sees("3 marked")
			s.keys("r")
			s.sees("Restart 3 processes on ", "[ Cancel ]", "drover restart shop/web01 shop/web02 shop/web03")
			s.keys("Enter")
			s.until("cancel to close the dialog", func(now string) bool { return !strings.Contains(now, "[ Cancel ]") })
			s.keys("r", "Tab")
			s.sees("[ Restart ]")
			s.keys("Enter")
			s.sees("restart: task op-", ": 3 ok, 0 failed")
			if p.PID("web02") == before || p.PID("web04") == 0 {
				t.Errorf("web02 still has pid %d", before)
			}

			s.keys(":")
			s.types("ps") // without a state as a filter, the rows stay while processes restart
			s.keys("Enter")
			s.until("all rows without a filter", func(now string) bool {
				return !strings.Contains(now, "--state") && row(now, "shop/web05") != ""
			})
			s.keys("Home", "l")
			s.sees("log shop/web01", "here is web01", "end")
			s.keys("p")
			s.sees("run -1", "here is web01")
			s.keys("f")
			s.sees("following")
			s.keys("l", "Home", "Space", "Space")
			s.sees("2 marked")
			s.keys("m")
			s.sees("and 1 more", "shop/web01 "+harness.Agent+"  ", "shop/web02 "+harness.Agent+"  ")
			s.keys("Tab", "/")
			s.types("HERE IS WEB02")
			s.keys("Enter")
			s.sees("▸shop/web02 ", "/HERE IS WEB02", "<tab>list")
			s.keys("q", "l", "Home", "d")
			s.sees("sleep 10000", "Last seen")
			s.keys("w")
			s.sees("Nothing is wrong here.")
			s.keys("q", "y")
			s.sees("namespace: shop", "web01:")
			s.keys("q", "q", "t")
			s.sees("restart", "3/3", "● done")
			s.keys("Enter")
			s.sees("shop/web03", "● ok")
			s.keys("?")
			s.sees("A filter is written")
			s.keys("C-c")
			s.sees("ready>")
			if now := s.text(); strings.Contains(now, "A filter is written") {
				t.Errorf("the former screen is not back:\n%s", now)
			}
		})
	}
}

// TestNumberOfTargetsIsTyped: 21 stops need the number.
func TestNumberOfTargetsIsTyped(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(shop(t, 21))
	s := open(t, p, 100, 30)
	s.types("drover ui 'shop/*'")
	s.keys("Enter")
	s.sees("processes: 21")
	s.keys("*")
	s.sees("21 marked")
	s.keys("s")
	s.sees("Type 21 to confirm:")
	s.keys("y", "Enter")
	s.until("cancel to close the dialog", func(now string) bool { return !strings.Contains(now, "to confirm") })
	s.keys("s")
	s.sees("Type 21 to confirm:")
	s.types("20")
	s.keys("Tab", "Enter")
	s.sees("That is not the number of processes.")
	if state := p.State("web21"); state != "running" {
		t.Fatalf("web21 is %s", state)
	}
	s.keys("BSpace")
	s.types("1")
	s.sees("Type 21 to confirm: 21", "[ Stop ]")
	s.keys("Enter")
	s.sees(": 21 ok, 0 failed")
	if state := p.State("web21"); state != "stopped" {
		t.Errorf("web21 is %s", state)
	}
}

// TestChinese: heads and states stand in the columns of the rows, though a Han character takes two cells.
func TestChinese(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(shop(t, 3))
	s := open(t, p, 120, 24, "DROVER_LANG=zh_CN.UTF-8")
	s.types("drover ui")
	s.keys("Enter")
	now := s.sees("● 运行中", "shop/web03", "实时", "3 个进程")
	cells := func(line, until string) (n int) {
		before, _, found := strings.Cut(line, until)
		if !found {
			t.Fatalf("%q has no %q:\n%s", line, until, now)
		}
		for _, r := range before {
			n++
			if unicode.Is(unicode.Han, r) {
				n++
			}
		}
		return n
	}
	heads := 0
	for l := range strings.Lines(now) {
		if strings.Contains(l, "进程 ") && strings.Contains(l, "重启次数") {
			heads = cells(l, "状态")
		}
	}
	for _, name := range []string{"shop/web01", "shop/web02", "shop/web03"} {
		if at := cells(row(now, name), "●"); heads == 0 || at != heads {
			t.Errorf("the state of %s is at cell %d, its head at %d:\n%s", name, at, heads, now)
		}
	}
	s.keys("Space", "Space", "K")
	s.sees("上的 2 个进程？", "输入 2 以确认：", "[ 取消 ]")
}

// TestReadOnly: no key operates.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(shop(t, 1))
	s := open(t, p, 80, 24)
	s.types("drover ui --read-only")
	s.keys("Enter")
	s.sees("read-only", "shop/web01")
	s.keys("K")
	s.keys("?")
	s.sees("A filter is written")
	s.keys("q")
	s.sees("shop/web01")
	if now := s.text(); strings.Contains(now, "Kill") || strings.Contains(now, "<r>") {
		t.Errorf("it offers an operation:\n%s", now)
	}
}

// TestServerIsLostAndComesBack: the screen says so, shows the past, and heals without a key.
func TestServerIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	p.Apply(shop(t, 2))
	s := open(t, p, 100, 24)
	s.types("drover ui")
	s.keys("Enter")
	s.sees("shop/web02", "● live")
	p.S.Kill()
	lost := s.sees("◌ lost since", "shown as of then")
	if row(lost, "shop/web02") == "" {
		t.Errorf("the rows are gone:\n%s", lost)
	}
	p.S.Run()
	s.until("the screen to heal", func(now string) bool {
		return strings.Contains(now, "● live") && strings.Contains(row(now, "shop/web02"), "running")
	})
}

// TestSignalRestoresTheTerminal: a SIGTERM leaves a shell that can be used.
func TestSignalRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t, binaries.drover)
	s := open(t, p, 80, 24)
	s.types("stty -a > before; drover ui; echo ended with $?; stty -a | cmp before - && echo same mode")
	s.keys("Enter")
	s.sees("PROCESS", "There is none yet.")
	shell := strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_pid}"))
	children, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatalf("the shell has the children %q: %v", children, err)
	}
	harness.Signal(t, pid, syscall.SIGTERM)
	now := s.sees("ended with", "ready>")
	s.sees("same mode")
	if strings.Contains(now, "PROCESS") {
		t.Errorf("the former screen is not back:\n%s", now)
	}
	s.types("echo still $((20 + 3))")
	s.keys("Enter")
	s.sees("still 23")
}
