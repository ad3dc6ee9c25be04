package launch_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/spec"
)

// TestPasses: it fails exactly where the kernel does, for one variable and for all.
func TestPasses(t *testing.T) {
	page := os.Getpagesize()
	many := map[string]string{}
	for i := range 26 {
		many["V"+string(rune('A'+i))] = strings.Repeat("x", 31*page)
	}
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"the longest":  {map[string]string{"A": strings.Repeat("x", 32*page-3)}, ""},
		"one too long": {map[string]string{"A": strings.Repeat("x", 32*page-2)}, "A has "},
		"all":          {many, "all variables have "},
	} {
		err := launch.Passes(spec.Execution{}, c.variables)
		if text := textOf(err); !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		cmd := exec.Command("/bin/true")
		for name, value := range c.variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if ran := cmd.Run(); (ran == nil) != (err == nil) {
			t.Errorf("%s: the kernel says %v, Passes %v", name, ran, err)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
