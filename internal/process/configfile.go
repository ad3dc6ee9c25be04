package process

import (
	"fmt"
	"strings"
)

// maxConfig is the largest number of configuration files of one process.
const maxConfig = 256

// configFaults notes the errors in the list of configuration files. A file without a checksum is not compared.
func (s *Spec) configFaults(f *faults) {
	if len(s.Config) > maxConfig {
		f.add("spec.configmap", "names %d files: expected at most %d", len(s.Config), maxConfig)
		return
	}
	sums := map[string]string{}
	for i, c := range s.Config {
		path, sum := fmt.Sprintf("spec.configmap[%d].path", i), fmt.Sprintf("spec.configmap[%d].md5", i)
		f.absolute(path, c.Path)
		if c.MD5 == "" {
			continue
		}
		if !isMD5(c.MD5) {
			f.add(sum, "is %.40q: expected 32 hexadecimal digits, or nothing", c.MD5)
		}
		if other, twice := sums[c.Path]; twice && !strings.EqualFold(other, c.MD5) {
			f.add(path, "%.200q is named twice, with different checksums", c.Path)
		}
		sums[c.Path] = c.MD5
	}
}

func isMD5(text string) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(text) == 32 && strings.Trim(text, digits) == ""
}
