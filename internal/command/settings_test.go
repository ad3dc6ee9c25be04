package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"drover/internal/command"
)

type sample struct {
	dir, config string
	age         time.Duration
}

// read reads a text over the settings of a command that is called with arguments.
func read(t *testing.T, text string, args ...string) (sample, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sample{}
	var failed error
	cmd := &cobra.Command{RunE: func(cmd *cobra.Command, _ []string) error {
		failed = command.ReadSettings(cmd, path)
		return nil
	}}
	cmd.Flags().StringVar(&s.dir, "data-dir", "/default", "")
	cmd.Flags().StringVar(&s.config, "config", "", "")
	cmd.Flags().DurationVar(&s.age, "event-age", time.Hour, "")
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return s, failed
}

func TestReadSettings(t *testing.T) {
	got, err := read(t, "# a comment: with a colon\n\n  data-dir:  /a: b \nevent-age: 2h\n")
	if want := (sample{dir: "/a: b", age: 2 * time.Hour}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	got, err = read(t, "data-dir: /file\nevent-age: 2h\n", "--data-dir", "/flag")
	if want := (sample{dir: "/flag", age: 2 * time.Hour}); err != nil || got != want {
		t.Errorf("flags count over the file: %+v, %v, want %+v", got, err, want)
	}
	got, err = read(t, "")
	if want := (sample{dir: "/default", age: time.Hour}); err != nil || got != want {
		t.Errorf("an empty file: %+v, %v, want %+v", got, err, want)
	}
}

func TestReadSettingsSaysAllThatIsWrong(t *testing.T) {
	_, err := read(t,
		"datadir: /x\nevent-age: soon\nconfig: /other\nhelp: true\nno colon\ndata-dir: /a\ndata-dir: /b\n")
	if usage := (*command.UsageError)(nil); !errors.As(err, &usage) {
		t.Fatalf("%v, want a wrong use", err)
	}
	for _, want := range []string{
		`:1: unknown setting "datadir"`, `:2: event-age "soon": expected a value of type duration`,
		`:3: unknown setting "config"`,
		`:4: unknown setting "help"`, `:5: "no colon": expected NAME: VALUE`, ":7: data-dir is already set in line 6",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	if err := command.ReadSettings(&cobra.Command{}, "/none"); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("a file that is not there: %v", err)
	}
}
