package gettext_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/words/gettext"
)

func TestRead(t *testing.T) {
	file := gettext.Read(`# a comment
msgid ""
msgstr ""
"Language: en\n"
"Content-Type: text/plain; charset=UTF-8\n"

msgctxt "drover"
msgid "alone"
msgstr "100% and {n}"

#. for translators
msgctxt "drover apply"
msgid "short"
msgstr "Make \"it\""

msgctxt "drover apply"
msgid "long"
msgstr ""
"first\n"
"\n"
"  last\t\\"

msgctxt "drover get"
msgid "short"
msgstr "启动"

msgctxt "drover get"
msgid "empty"
msgstr ""

msgctxt "drover get"
msgid "many"
msgid_plural "manies"
msgstr[0] "{n} host"
msgstr[1] "{n} hosts"

#~ msgctxt "drover get"
#~ msgid "gone"
#~ msgstr "gone"
`)
	want := map[gettext.Key]string{
		{Context: "drover apply", ID: "short"}: `Make "it"`,
		{Context: "drover apply", ID: "long"}:  "first\n\n  last\t\\",
		{Context: "drover get", ID: "short"}:   "启动",
		{Context: "drover get", ID: "many"}:    "{n} host",
		{Context: "drover", ID: "alone"}:       "100% and {n}",
	}
	got := map[gettext.Key]string{}
	for _, key := range file.Keys() {
		if text, ok := file.Text(key); ok {
			got[key] = text
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, key := range []gettext.Key{{Context: "drover get", ID: "empty"}, {Context: "drover get", ID: "none"}, {}} {
		if text, ok := file.Text(key); ok || text != "" {
			t.Errorf("%v is %q", key, text)
		}
	}
}

// TestKeys: the keys have the order of the file, whatever lines they stand on.
func TestKeys(t *testing.T) {
	got := gettext.Read(`msgid ""
msgstr ""
"Language: zh_CN\n"

#. for translators
msgctxt "message"
msgid "{n} hosts of {name}"
msgstr "{name} 的 {n} 台主机"

msgctxt "message"
msgid ""
"{n} hosts "
"\"of\""
msgstr ""
"{n} 台"
"主机"

#. and again
msgctxt "fault"
msgid "a"
msgstr "乙"

msgctxt "fault"
msgid "b"
msgid_plural ""
"bs"
msgstr[0] "丙"
msgstr[1] "丁"

msgctxt "fault"
msgid "empty"
msgstr ""
`).Keys()
	want := []gettext.Key{
		{Context: "message", ID: "{n} hosts of {name}"},
		{Context: "message", ID: `{n} hosts "of"`},
		{Context: "fault", ID: "a"},
		{Context: "fault", ID: "b"},
		{Context: "fault", ID: "empty"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
