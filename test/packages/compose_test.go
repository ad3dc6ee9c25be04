package packages_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"drover/internal/test/harness"
)

// composeFile is what deploy/compose.yaml may say: an unknown key fails the test.
type composeFile struct {
	Name     string                    `yaml:"name"`
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Timeout  string   `yaml:"timeout"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
	Restart  string   `yaml:"restart"`
	ReadOnly bool     `yaml:"read_only"`
	Tmpfs    []string `yaml:"tmpfs"`
	CapDrop  []string `yaml:"cap_drop"`
	Security []string `yaml:"security_opt"`
}

// readCompose reads deploy/compose.yaml with the given settings. It returns what is missing as an error.
func readCompose(t *testing.T, settings map[string]string) (composeFile, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "deploy", "compose.yaml"))
	must(t, err)
	var missing error
	form := regexp.MustCompile(`\$\{([A-Z_]+)(:[-?])([^}]*)\}`)
	full := form.ReplaceAllStringFunc(string(text), func(word string) string {
		parts := form.FindStringSubmatch(word)
		value, is := settings[parts[1]]
		switch {
		case is:
			return value
		case parts[2] == ":-":
			return parts[3]
		}
		missing = fmt.Errorf("%s: %s", parts[1], parts[3])
		return ""
	})
	var file composeFile
	if err := yaml.UnmarshalWithOptions([]byte(full), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return file, missing
}

// TestCompose starts by hand what deploy/compose.yaml says: no Docker runs where the tests run. A real PostgreSQL is made
// as its image would make it, and the server is that of our image, with the same names, ports, command and environment.
func TestCompose(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"DROVER_ADVERTISE", "POSTGRES_PASSWORD"} {
		given := map[string]string{"DROVER_ADVERTISE": "127.0.0.1:7351", "POSTGRES_PASSWORD": "x"}
		delete(given, setting)
		if _, err := readCompose(t, given); err == nil || !strings.HasPrefix(err.Error(), setting+": expected") {
			t.Errorf("without %s: %v", setting, err)
		}
	}
	file, err := readCompose(t, map[string]string{
		"DROVER_ADVERTISE": "127.0.0.1:7351", "POSTGRES_PASSWORD": "secret1", "DROVER_VERSION": "1.0.0",
	})
	must(t, err)
	server, database := file.Services["server"], file.Services["postgres"]
	file.check(t)

	image := readImage(t, build(t, "1.0.0"))
	l := newLab(t, "drover")
	m := l.machines["drover"]
	m.run("echo '127.0.0.1 postgres' >>/etc/hosts") // the network of Compose resolves the names of services
	name, owner, password := database.Environment["POSTGRES_DB"], database.Environment["POSTGRES_USER"], database.Environment["POSTGRES_PASSWORD"]
	m.write("/srv/password", password)
	m.run(fmt.Sprintf(`chmod 644 /srv/password
as() { runuser -u postgres -- "$@"; }
bin=$(dirname /usr/lib/postgresql/*/bin/initdb)
install -d -o postgres -g postgres /srv/db /run/postgresql
cd /tmp
as $bin/initdb -D /srv/db --username=%[1]s --pwfile=/srv/password --auth-local trust --auth-host scram-sha-256 %[2]s >initdb.log
as $bin/pg_ctl -D /srv/db -l /srv/db/log -o '-k /run/postgresql' -w start
as createdb --host=/run/postgresql --username=%[1]s %[3]s
`, owner, database.Environment["POSTGRES_INITDB_ARGS"], name))
	m.run(strings.Join(database.Healthcheck.Test[1:], " "))

	var environment []string
	for name, value := range server.Environment {
		environment = append(environment, name+"="+value)
	}
	image.run(m, server.Command, environment...)
	image.healthy(m)
	if n := strings.TrimSpace(m.run(fmt.Sprintf(
		"cd /tmp; runuser -u postgres -- psql --host=/run/postgresql --username=%s --tuples-only --no-align --command='select count(*) from apps' %s", owner,
		name))); n != "1" {
		t.Errorf("the database has %s apps, want the first one", n)
	}
	if left := m.run("ls /srv/image/var/lib/drover/server | grep drover.db || true"); left != "" {
		t.Errorf("the server has a database of its own: %s", left)
	}
	if shown := m.try("journalctl --quiet --no-pager --unit drover-image | grep -c secret1"); strings.TrimSpace(shown.out) != "0" {
		t.Errorf("the log shows the password %s times", strings.TrimSpace(shown.out))
	}
}

// check fails the test if the file does not fit itself and the image.
func (f *composeFile) check(t *testing.T) {
	t.Helper()
	server := f.Services["server"]
	if len(f.Services) != 2 || server.Image != "drover:1.0.0" || server.DependsOn["postgres"].Condition != "service_healthy" ||
		!server.ReadOnly || len(server.CapDrop) != 1 || server.CapDrop[0] != "ALL" {
		t.Errorf("the server is %+v", server)
	}
	for name, s := range f.Services {
		if len(s.Volumes) != 1 || s.Restart == "" {
			t.Errorf("%s is %+v", name, s)
			continue
		}
		volume, _, _ := strings.Cut(s.Volumes[0], ":")
		if _, is := f.Volumes[volume]; !is {
			t.Errorf("%s uses the volume %s, which is not there", name, volume)
		}
	}
}
