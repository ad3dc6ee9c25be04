package files

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"drover/internal/cli/term"
	"drover/internal/words"
	"drover/internal/words/gettext"
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
		{[]string{"namespace"}, []string{"namespace\n  The namespace of the processes.\n\nvalue    name\ndefault  required\n"}, ""},
		{[]string{"defaults"}, []string{"any but run, start, pid_file."}, ""},
		{[]string{"default"}, nil, "did you mean defaults?"},
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

// TestExplainInChinese: what each field does, the form of its value and its default are in the file of fields,
// unless a file may hold that very text.
func TestExplainInChinese(t *testing.T) {
	used := map[string]bool{}
	literal := regexp.MustCompile(`^(URL|JSON|host:port|true|\{run, (timeout|wait)\})$`)
	for _, f := range allFields() {
		used[f.Text], used[f.Value], used[f.Default] = true, true, true
		for about, text := range map[string]string{"text": f.Text, "value": f.Value} {
			if _, ok := words.Field(text, words.Chinese); !ok && !literal.MatchString(text) {
				t.Errorf("%s: package words lacks the %s %q", f.Path, about, text)
			}
		}
		written := regexp.MustCompile(`^([0-9][0-9a-zA-Z%]*|/|[{[].*[]}]|false|true)$`).MatchString(f.Default) ||
			slices.Contains(f.Choices, f.Default) || f.Default == "never"
		if _, ok := words.Field(f.Default, words.Chinese); ok == written {
			t.Errorf("%s: package words has the default %q: %v", f.Path, f.Default, ok)
		}
	}
	data, err := os.ReadFile("../../words/fields/zh_CN.po")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range gettext.Read(string(data)).Keys() {
		if !used[key.ID] {
			t.Errorf("no field has %q", key.ID)
		}
	}
	root := &cobra.Command{Use: "drover"}
	term.LanguageFlag(root)
	root.AddCommand(NewExplain())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"explain", "restart", "--lang", "zh"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"拉起策略。", "生效方式：live\n", "restart.delay", "时长"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
