package importer_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drover/internal/importer"
	"drover/internal/process"
	"drover/internal/processfile"
)

var update = flag.Bool("update", false, "write the expected files anew")

// facts are those of a host that does not change with the machine of the test.
func facts() importer.Facts {
	return importer.Facts{
		Hostname: "web1.example.com", MachineID: "0123456789abcdef0123456789abcdef",
		Home:   func(user string) string { return "/home/" + user },
		Exists: func(path string) bool { return path != "/etc/orders/local.env" },
		Daemon: func(pidFile string) string {
			return map[string]string{"/run/postgresql/16-main.pid": "postgres"}[pidFile]
		},
		RunsAs: func(string) string { return "root" },
	}
}

// texts reads files.
func texts(t *testing.T, names ...string) (all []importer.Text) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, importer.Text{Path: filepath.Base(name), Data: data})
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// units reads the units of a directory, with their drop-ins.
func units(t *testing.T, dir string) (all []importer.Unit) {
	t.Helper()
	for _, pattern := range []string{"*.service", "*.timer"} {
		for _, file := range glob(t, filepath.Join(dir, pattern)) {
			u := importer.Unit{Name: filepath.Base(file), Files: texts(t, file)}
			u.Files = append(u.Files, texts(t, glob(t, filepath.Join(file+".d", "*.conf"))...)...)
			if name, template := strings.CutSuffix(u.Name, "@.service"); template {
				u.Name = name + "@mail.service"
			}
			all = append(all, u)
		}
	}
	return all
}

func directories(t *testing.T, below string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(below)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join(below, e.Name()))
		}
	}
	if len(all) < 2 {
		t.Fatalf("%s has no cases", below)
	}
	return all
}

// TestSystemd and TestSupervisord: each directory of testdata becomes the process file beside it, and drover takes
// that file.
func TestSystemd(t *testing.T) {
	for _, dir := range directories(t, "testdata/systemd") {
		compare(t, dir, importer.Systemd(units(t, dir), []string{"web1"}, facts()))
	}
}

func TestSupervisord(t *testing.T) {
	for _, dir := range directories(t, "testdata/supervisord") {
		main := texts(t, filepath.Join(dir, "supervisord.conf"))[0]
		main.Path = "/etc/supervisord.conf"
		files := []importer.Text{main}
		for _, pattern := range importer.Includes(main, facts()) {
			below := strings.TrimPrefix(pattern, "/etc/")
			files = append(files, texts(t, glob(t, filepath.Join(dir, below))...)...)
		}
		compare(t, dir, importer.Supervisord(files, []string{"web1"}, facts()))
	}
}

func compare(t *testing.T, dir string, r *importer.Import) {
	t.Helper()
	text, err := r.Write("shop")
	if err != nil {
		t.Fatal(err)
	}
	valid(t, dir, text)
	golden := dir + ".yaml"
	if *update {
		if err := os.WriteFile(golden, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(text, want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n%v (go test -update writes the file)", dir, text, want, err)
	}
}

// valid checks that drover takes a file as it is.
func valid(t *testing.T, name string, text []byte) {
	t.Helper()
	docs, err := processfile.Read(name, text)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
		return
	}
	for _, p := range docs[0].Processes {
		spec := processfile.Canonical(p.Spec)
		for _, f := range processfile.FaultsOf(&spec, process.Start) {
			t.Errorf("%s: %s: %v", name, p.Name, f)
		}
	}
}

// TestSectionsOfSupervisord: each process has the section that makes it, which its name need not have.
func TestSectionsOfSupervisord(t *testing.T) {
	r := importer.Supervisord(texts(t, "testdata/supervisord/groups/supervisord.conf"), []string{"web1"}, facts())
	var got []string
	for _, p := range r.Processes {
		got = append(got, strings.Join(append(p.Origins, p.Program, p.Group), " "))
	}
	want := []string{"g:ev ev g", "worker:worker_00 worker ", "worker:worker_01 worker "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDefaultsLoseNothing: a value that is the default of systemd has no comment.
func TestDefaultsLoseNothing(t *testing.T) {
	for setting, lost := range map[string]bool{
		"PrivateTmp=false": false, "PrivateNetwork=no": false, "PrivateDevices=0": false, "ProtectSystem=off": false,
		"ProtectHome=No": false, "RestrictRealtime=f": false, "NonBlocking=no": false, "Delegate=no": false,
		"TTYReset=no": false, "MemoryHigh=infinity": false, "DevicePolicy=auto": false, "ProtectProc=default": false,
		"PrivateTmp=yes": true, "ProtectSystem=full": true, "IgnoreSIGPIPE=no": true, "SyslogLevelPrefix=false": true,
		"MemorySwapMax=0": true, "CPUWeight=0": true, "DevicePolicy=closed": true,
	} {
		text := "[Service]\nExecStart=/bin/a\n" + setting + "\n"
		r := importer.Systemd([]importer.Unit{
			{Name: "a.service", Files: []importer.Text{{Data: []byte(text)}}},
		}, []string{"web1"}, facts())
		if told := strings.Join(r.Processes[0].Comments, " "); strings.Contains(told, "is lost") != lost {
			t.Errorf("%s: %q, want a comment: %v", setting, told, lost)
		}
	}
}

// TestDaemonOfAScript: the name of a script is not that of the daemon that it leaves.
func TestDaemonOfAScript(t *testing.T) {
	for _, c := range []struct{ start, pidFile, running, name, told string }{
		{"/usr/share/helper exec", "/run/d.pid", "", "", "process_name: /usr/share/helper is a script"},
		{"/usr/share/helper exec", "/run/d.pid", "dnsmasq", "dnsmasq", ""},
		{"/usr/share/helper exec", "", "", "helper", "process_name is that of the start command"},
		{"/usr/sbin/apachectl start", "/run/d.pid", "", "apache2", ""},
		{"/usr/sbin/named", "/run/d.pid", "", "named", "process_name is that of the start command"},
	} {
		f := facts()
		f.Script = func(program string) bool { return program == "/usr/share/helper" || program == "/usr/sbin/apachectl" }
		f.Daemon = func(string) string { return c.running }
		text := "[Service]\nType=forking\nExecStart=" + c.start + "\nPIDFile=" + c.pidFile + "\n"
		r := importer.Systemd([]importer.Unit{
			{Name: "d.service", Files: []importer.Text{{Data: []byte(text)}}},
		}, []string{"web1"}, f)
		written, err := r.Write("shop")
		if err != nil {
			t.Fatal(err)
		}
		valid(t, c.start, written)
		told := strings.ReplaceAll(string(written), "\n  #  ", "")
		if got := r.Processes[0].ProcessName; got != c.name || !strings.Contains(told, c.told) ||
			c.told == "" && strings.Contains(told, "process_name is") {
			t.Errorf("%s: process_name %q, want %q and %q:\n%s", text, got, c.name, c.told, written)
		}
	}
}

// TestSectionsInSeveralFiles: supervisord merges the sections of a name, and the last value of a key wins.
func TestSectionsInSeveralFiles(t *testing.T) {
	text := func(path, data string) importer.Text { return importer.Text{Path: path, Data: []byte(data)} }
	r := importer.Supervisord([]importer.Text{
		text("/etc/supervisord.conf", "[supervisord]\numask=027\n[include]\nfiles=conf.d/*\n[supervisord]\nuser=shop\n"),
		text("/etc/conf.d/a.conf", "[program:inc]\ncommand=/srv/old\nnumprocs=2\nprocess_name=inc_%(process_num)s\n"+
			"directory=%(here)s\n[program:own]\ncommand=/srv/own\n"),
		text("/srv/more/b.conf", "[program:inc]\ncommand=/srv/new %(here)s\n"),
	}, []string{"web1"}, facts())
	written, err := r.Write("shop")
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "several files", written)
	if len(r.Processes) != 2 {
		t.Fatalf("%d processes in\n%s", len(r.Processes), written)
	}
	inc, own := r.Processes[0], r.Processes[1]
	if inc.Name != "inc" || inc.Run != "/srv/new /srv/more" || inc.Copies == nil || *inc.Copies != 2 ||
		inc.Directory != "/etc/conf.d" || inc.User != "shop" || inc.Umask != "027" {
		t.Errorf("inc is\n%s", written)
	}
	const told = "[program:inc] is in /etc/conf.d/a.conf, /srv/more/b.conf: supervisord merges them"
	if !strings.Contains(strings.Join(inc.Comments, " "), told) ||
		strings.Contains(strings.Join(own.Comments, " "), "merges") {
		t.Errorf("want %q in\n%s", told, written)
	}
}

// TestAccountOfSupervisord: a program without an account runs as its supervisord does. It never becomes root's in silence.
func TestAccountOfSupervisord(t *testing.T) {
	text := []byte("[program:api]\ncommand=/srv/api\n[program:own]\ncommand=/srv/own\nuser=own\n")
	for runsAs, want := range map[string]string{"shop": "shop", "root": "", "": ""} {
		f := facts()
		f.RunsAs = func(configuration string) string {
			if configuration != "main.conf" {
				t.Errorf("asked about %s", configuration)
			}
			return runsAs
		}
		r := importer.Supervisord([]importer.Text{{Path: "main.conf", Data: text}}, []string{"web1"}, f)
		if got := r.Processes[0].User; got != want {
			t.Errorf("supervisord is %q's: the program runs as %q, want %q", runsAs, got, want)
		}
		if got := r.Processes[1].User; got != "own" {
			t.Errorf("supervisord is %q's: a program of its own account runs as %q", runsAs, got)
		}
		written, err := r.Write("shop")
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(string(written), "write the account into"); told != (runsAs == "") {
			t.Errorf("supervisord is %q's: the file is\n%s", runsAs, written)
		}
	}
}
