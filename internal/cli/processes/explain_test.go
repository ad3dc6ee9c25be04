package processes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestExplain: a field, a part with its fields, a misspelt field, all fields, and the schema.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
		fail string
	}{
		{[]string{"restart.delay"}, []string{"restart.delay\n", "default  1s\n", "class    live\n"}, ""},
		{[]string{"restart"}, []string{"restart.give_up_after  number or never"}, ""},
		{nil, []string{"FIELD", "stop_signals"}, ""},
		{[]string{"restart.dely"}, nil, "there is no field restart.dely; did you mean restart.delay?"},
	} {
		cmd := NewExplain()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(tt.args)
		err := cmd.Execute()
		if err == nil && tt.fail != "" || err != nil && !strings.Contains(err.Error(), tt.fail) || err != nil && tt.fail == "" {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.fail)
		}
		for _, part := range tt.want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%v: %q is not in\n%s", tt.args, part, out.String())
			}
		}
	}
	cmd := NewExplain()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--schema"})
	var schema map[string]any
	if err := cmd.Execute(); err != nil || json.Unmarshal(out.Bytes(), &schema) != nil || schema["$schema"] == nil {
		t.Errorf("%v, %s", err, out.String())
	}
}
