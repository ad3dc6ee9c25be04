package words

import "embed"

// files are the texts, files of gettext.
//
//go:embed descriptions messages sentences
var files embed.FS

// content returns one of the files.
func content(path string) string {
	data, err := files.ReadFile(path)
	if err != nil {
		panic(err) // a test reads each file
	}
	return string(data)
}
