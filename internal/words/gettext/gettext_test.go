package gettext_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/words/gettext"
)

func TestRead(t *testing.T) {
	got := gettext.Read(`# a comment
msgid ""
msgstr ""
"Language: en\n"
"Content-Type: text/plain; charset=UTF-8\n"

msgid "alone"
msgstr "without a context, 100% and {n}"

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
		{ID: "alone"}:                          "without a context, 100% and {n}",
		{Context: "drover apply", ID: "short"}: `Make "it"`,
		{Context: "drover apply", ID: "long"}:  "first\n\n  last\t\\",
		{Context: "drover get", ID: "short"}:   "启动",
		{Context: "drover get", ID: "empty"}:   "",
		{Context: "drover get", ID: "many"}:    "{n} host",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestList(t *testing.T) {
	got := gettext.List(`msgid ""
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

msgid "a"
msgstr "甲"

msgctxt "fault"
msgid "a"
msgstr "乙"
`)
	want := []gettext.Entry{
		{gettext.Key{Context: "message", ID: "{n} hosts of {name}"}, "{name} 的 {n} 台主机"},
		{gettext.Key{Context: "message", ID: `{n} hosts "of"`}, "{n} 台主机"},
		{gettext.Key{ID: "a"}, "甲"},
		{gettext.Key{Context: "fault", ID: "a"}, "乙"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
