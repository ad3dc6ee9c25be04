package process

import (
	"cmp"
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
		path, at := fmt.Sprintf("spec.configmap[%d].path", i), fmt.Sprintf("spec.configmap[%d].", i)
		f.absolute(path, c.Path)
		sum := cmp.Or(c.SHA256, c.MD5)
		if sum == "" {
			continue
		}
		if c.MD5 != "" && !isHex(c.MD5, md5Digits) {
			f.add(at+"md5", "is %.40q: expected %d hexadecimal digits, or nothing", c.MD5, md5Digits)
		}
		if c.SHA256 != "" && !isHex(c.SHA256, sha256Digits) {
			f.add(at+"sha256", "is %.80q: expected %d hexadecimal digits, or nothing", c.SHA256, sha256Digits)
		}
		if other, twice := sums[c.Path]; twice && !strings.EqualFold(other, sum) {
			f.add(path, "%.200q is named twice, with different checksums", c.Path)
		}
		sums[c.Path] = sum
	}
}

// The lengths of checksums in hexadecimal digits.
const (
	md5Digits    = 32
	sha256Digits = 64
)

func isHex(text string, length int) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(text) == length && strings.Trim(text, digits) == ""
}
